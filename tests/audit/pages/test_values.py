from __future__ import annotations

import difflib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.pages import values

LINES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=8)


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (["trl", "sft"], ["- trl", "- sft"]),
        ({"numProcPerNode": 4}, ["numProcPerNode: 4"]),
        ("1", ["'1'"]),
        (1, ["1"]),
        ("", ["''"]),
        (None, ["null"]),
        ("a\nb", ["|-", "  a", "  b"]),
    ],
)
def test_values_are_written_as_people_write_jobs_and_text_is_told_from_numbers(value, lines):
    assert values.lines(value) == lines


def test_what_is_larger_than_a_page_is_cut_and_says_so():
    lines = values.lines(["x" * 10_000] + ["x"] * 999)
    assert len(lines) == values.MAX_LINES + 1
    assert len(lines[0]) < 2100
    assert lines[-1] == "… 600 more lines"


def test_what_is_nested_too_deeply_is_named():
    assert values.lines(orjson.loads(b"[" * 900 + b"]" * 900)) == ["(nested too deeply to be shown here; see the JSON)"]


@given(LINES, LINES)
def test_both_sides_are_whole_and_only_equal_lines_share_a_row_as_the_same(before, after):
    rows = list(values.sides(before, after))
    assert [row.before for row in rows if row.before is not None] == before
    assert [row.after for row in rows if row.after is not None] == after
    assert all(row.before == row.after for row in rows if row.kind == "same")
    same = sum(block.size for block in difflib.SequenceMatcher(a=before, b=after).get_matching_blocks())
    assert sum(row.kind == "same" for row in rows) == same
