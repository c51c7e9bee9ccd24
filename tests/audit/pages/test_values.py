from __future__ import annotations

import difflib
import sys

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.webhook.pages import record_page, record_seal, side_by_side

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
    assert side_by_side.lines(value) == lines


def test_what_is_larger_than_a_page_is_cut_and_says_so():
    lines = side_by_side.lines(["x" * 10_000] + ["x"] * 999)
    assert len(lines) == side_by_side.MAX_LINES + 1
    assert len(lines[0]) < 2100
    assert lines[-1] == "… 600 more lines"


def test_what_is_nested_too_deeply_is_named():
    assert side_by_side.lines(orjson.loads(b"[" * 900 + b"]" * 900)) == ["(nested too deeply to be shown here; see the JSON)"]


@given(LINES, LINES)
def test_both_sides_are_whole_and_only_equal_lines_share_a_row_as_the_same(before, after):
    rows = list(side_by_side.sides(before, after, side_by_side.Allowance()))
    assert [row.before for row in rows if row.before is not None] == before
    assert [row.after for row in rows if row.after is not None] == after
    assert all(row.before == row.after for row in rows if row.kind == "same")
    same = sum(block.size for block in difflib.SequenceMatcher(a=before, b=after).get_matching_blocks())
    assert sum(row.kind == "same" for row in rows) == same


@given(LINES, LINES)
def test_without_an_allowance_both_sides_are_whole_too_and_equal_ends_share_their_rows(before, after):
    rows = list(side_by_side.sides(before, after, side_by_side.Allowance(0)))
    assert [row.before for row in rows if row.before is not None] == before
    assert [row.after for row in rows if row.after is not None] == after
    assert all(row.before == row.after for row in rows if row.kind == "same")
    if before[:1] == after[:1] != []:
        assert rows[0].kind == "same"


def test_the_values_of_jobs_are_compared_line_by_line_on_every_page():
    allowance, words = side_by_side.Allowance(), [f"- --flag_{number}=1" for number in range(60)]
    for number in range(100):
        changed = [*words[: number % 50], "- new", *words[number % 50 :]]
        assert [row.kind for row in side_by_side.sides(words, changed, allowance)].count("changed") == 1


def test_a_page_of_values_with_a_few_lines_again_and_again_takes_few_steps(make_record, make_change):
    lines = range(side_by_side.MAX_LINES)
    before = ["x" if number % 3 else f"a{number}" for number in lines]
    after = ["x" if number % 2 else f"b{number}" for number in lines]
    record = make_record(changes=[make_change(before=before, after=after)] * 200)
    record |= {"seq": 1, "hash": "0", "prev": "0"}
    steps = count(lambda: record_page.page(record, record_seal.Standing("", None, None), "/", []))
    assert steps < 10 * side_by_side.Allowance().steps


def test_a_page_has_so_many_lines_and_no_more(make_record, make_change):
    changes = [make_change(before=["x"] * 350, after=["y"] * 350)] * 200
    record = make_record(changes=changes) | {"seq": 1, "hash": "0", "prev": "0"}
    page = record_page.page(record, record_seal.Standing("", None, None), "/", []).decode()
    assert page.count("<tr>") < 11_000
    assert "more changes are in the JSON" in page


def count(work):
    """How many lines of difflib a call runs."""
    steps = 0

    def line(*_):
        nonlocal steps
        steps += 1
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: line if frame.f_code.co_filename == difflib.__file__ else None)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps
