"""A document that is too large to be read is walked by its names alone, and these secrets are found like any."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.webhook.audit.redaction import secret_names, texts, walks

NAMES = st.sampled_from(["HF_TOKEN", "apiKey", "password", "hub_token", "X-Amz-Signature"])
PLAIN = st.sampled_from(["args", "command", "env", "image", "kind", "name", "value", "spec"])
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "trl", "--seed", "-c", "Secret", "2"])
SHAPES = (
    lambda name, secret: {"name": name, "value": secret},
    lambda name, secret: {"key": name, "value": {"inner": [secret]}},
    lambda name, secret: {name: secret, "name": "x"},
    lambda _, secret: {"kind": "Secret", "data": {"x": secret}, "stringData": [secret]},
    lambda name, secret: ["trl", f"--{name}", secret],
    lambda name, secret: {"command": ["trl", f"--{name}"], "args": [secret, "--seed"]},
)


@st.composite
def documents(draw):
    """Draw a document, and the secrets that were planted in it."""
    secrets = []

    def plant(drawn):
        shape, name = drawn
        secrets.append(f"planted-{len(secrets)}-by-its-name")
        return shape(name, secrets[-1])

    planted = st.tuples(st.sampled_from(SHAPES), NAMES).map(plant)
    document = st.recursive(
        planted | SCALARS,
        lambda inner: st.lists(inner | planted, max_size=4) | st.dictionaries(PLAIN, inner | planted, max_size=4),
        max_leaves=12,
    )
    made = draw(document)
    return made, [each for each in secrets if each in str(made)]  # a map may have dropped some


@settings(deadline=None)
@given(documents())
def test_each_secret_that_a_name_announces_is_found_without_reading_a_text(drawn):
    document, secrets = drawn
    walk = walks.Walk(secret_names.is_secret, most=0)
    walk.by_name(document)
    assert [walk.echoes.text(each) for each in secrets] == [texts.MARK] * len(secrets)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("level", [0, 40, 60, 2000])
def test_a_secret_is_found_at_any_depth(shape, level):
    document = shape("HF_TOKEN", "planted-by-its-name")
    for _ in range(level):
        document = {"spec": [document]}
    walk = walks.Walk(secret_names.is_secret, most=0)
    walk.by_name(document)
    assert walk.echoes.text("planted-by-its-name") == texts.MARK


@settings(deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=5), st.data())
def test_what_has_no_secret_name_is_not_a_secret(names, data):
    document = [{"name": "PET_NNODES", "value": f"plain-value-{number}"} for number, _ in enumerate(names)]
    document += [{"name": name, "value": data.draw(st.none() | st.booleans())} for name in names]
    walk = walks.Walk(secret_names.is_secret, most=0)
    walk.by_name(document)
    plain = [f"plain-value-{number}" for number in range(len(names))]
    assert [walk.echoes.text(each) for each in plain] == plain
