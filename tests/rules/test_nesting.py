"""Nesting: a text is too deep exactly where its objects and lists are, whatever brackets its strings have."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.strategies.documents import nesting

BRACKETS = st.text(st.sampled_from('[]{}"a'), max_size=4)
VALUES = st.recursive(
    st.none() | BRACKETS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(BRACKETS, inner, max_size=4),
)


def deep(value, levels):
    """The value within this many lists and objects in turn."""
    for level in range(levels):
        value = [value] if level % 2 else {"[": value}
    return value


def between(value, levels, before, after):
    """The value within this many objects, each with one text as the name before it and another behind it."""
    for _ in range(levels):
        value = {before: value, "z": after}
    return value


def judged(value):
    text = json.dumps(value).encode()
    return nesting.levels(text, value) > nesting.MOST


@given(VALUES)
def test_what_is_within_the_limit_is_not_too_deep(value):
    assert not judged(value)


@given(BRACKETS, st.integers(-3, 3), st.lists(BRACKETS, max_size=300))
def test_the_limit_is_met_exactly(text, more, beside):
    levels = nesting.MOST - 1 + more
    assert judged([deep(text, levels), *beside]) is (levels + 1 > nesting.MOST)


@given(BRACKETS, BRACKETS, st.integers(-3, 3))
@example("}", "{", 80)
@example('\\"}', '{\\\\"', 80)
def test_brackets_in_strings_hide_no_level(before, after, more):
    levels = nesting.MOST + more
    assert judged(between(1, levels, before, after)) is (levels > nesting.MOST)


@pytest.mark.parametrize("count", [1, 30_000])
def test_a_text_with_many_brackets_is_walked_once(count):
    assert not judged([[[]]] * count)
    assert judged([deep(0, nesting.MOST)] * (count // 100 + 1))
