"""A tiny schema language for Kubernetes documents, so that a misspelt field fails here and not on a cluster.

The real CRD schemas belong to other projects and are thousands of lines long. What our manifests need is less: which
fields may stand where, of which type, and which must. A shape is a type, a tuple of types, a `[shape]` for lists, a
`{field: shape}` for objects (a field ending in `!` is required; the sole field `*` stands for any name), or a function
from a value to a complaint, empty when all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["Shape", "problems"]

Shape = Any  # recursive: type | tuple[type, ...] | list[Shape] | dict[str, Shape] | Callable[[object], str]


def problems(value: object, shape: Shape, path: str = "") -> Iterator[str]:
    """Yield one sentence per place where `value` does not have `shape`, with the path of the place."""
    if isinstance(shape, dict):
        yield from _object_problems(value, shape, path)
    elif isinstance(shape, list):
        yield from _list_problems(value, shape[0], path)
    elif isinstance(shape, type | tuple):
        yield from _scalar_problems(value, shape, path)
    else:
        complaint: Callable[[object], str] = shape
        if said := complaint(value):
            yield f"{path}: {value!r} {said}"


def _object_problems(value: object, shape: Mapping[str, Shape], path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is not an object"
        return
    if "*" in shape:
        for name, member in value.items():
            yield from problems(member, shape["*"], f"{path}.{name}")
        return
    known = {name.rstrip("!"): inner for name, inner in shape.items()}
    for name, member in value.items():
        if name in known:
            yield from problems(member, known[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}: no such field; there are {', '.join(sorted(known))}"
    yield from (f"{path}.{name[:-1]}: missing" for name in shape if name.endswith("!") and value.get(name[:-1]) is None)


def _list_problems(value: object, shape: Shape, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: {value!r} is not a list"
        return
    for index, member in enumerate(value):
        yield from problems(member, shape, f"{path}[{index}]")
    named = [member["name"] for member in value if isinstance(member, dict) and "name" in member]
    yield from (f"{path}: {name!r} appears twice" for name in sorted({n for n in named if named.count(n) > 1}))


def _scalar_problems(value: object, shape: type | tuple[type, ...], path: str) -> Iterator[str]:
    allowed = shape if isinstance(shape, tuple) else (shape,)
    # A bool is an int in Python and not in YAML.
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        yield f"{path}: {value!r} is not of type {' or '.join(each.__name__ for each in allowed)}"
