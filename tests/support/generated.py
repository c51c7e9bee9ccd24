"""Random JSON and random Kubernetes-like documents, as hypothesis strategies.

Keyed lists (`env`, `containers`, ...) look as in real files: mostly with distinct names, sometimes with a name twice,
without a name, or with a name that looks like an index, a pointer or a field path.
"""

from __future__ import annotations

from hypothesis import strategies as st

AWKWARD_KEYS = ("", *"~/[\\01é ", "a/b", "m~n", "~1", "a.b", "a]b", "a[0]", "日本", "nvidia.com/gpu")
KEYED_LISTS = {"env": "name", "containers": "name", "volumeMounts": "mountPath", "ports": "containerPort"}

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
keys = st.sampled_from(AWKWARD_KEYS) | st.text(max_size=6) | st.sampled_from(("spec", "args", "labels"))


def values(leaves=6):
    """Any JSON value."""
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=leaves,
    )


def _entry(key, inner):
    names = (
        st.sampled_from(("a", "b", "A_B", "0", "1", "2", "x]y", "a[b", "")) | st.integers(0, 3) | st.text(max_size=4)
    )
    named = st.builds(lambda name, rest: {**rest, key: name}, names, st.dictionaries(keys, inner, max_size=2))
    return named | inner


def _keyed(inner):
    return st.one_of(
        *(
            st.fixed_dictionaries({member: st.lists(_entry(key, inner), max_size=4)})
            for member, key in KEYED_LISTS.items()
        )
    )


def documents(leaves=12):
    """An object with keyed lists somewhere inside."""
    inner = st.recursive(
        scalars,
        lambda below: st.lists(below, max_size=3) | st.dictionaries(keys, below, max_size=4) | _keyed(below),
        max_leaves=leaves,
    )
    return st.dictionaries(keys, inner, max_size=4) | _keyed(inner)


def paths_of(node, path=()):
    """Yield every place inside a document, itself first."""
    yield path
    if isinstance(node, dict):
        for key, value in node.items():
            yield from paths_of(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from paths_of(value, (*path, index))
