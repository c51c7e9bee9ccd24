from __future__ import annotations

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
    deep = orjson.loads(b"[" * 900 + b"]" * 900)
    assert side_by_side.lines(deep) == ["(nested too deeply to be shown here; see the JSON)"]


@given(LINES, LINES)
def test_both_sides_are_whole_and_equal_ends_share_their_rows(before, after):
    rows = list(side_by_side.sides(before, after))
    assert [row.before for row in rows if row.before is not None] == before
    assert [row.after for row in rows if row.after is not None] == after
    assert all(row.before == row.after for row in rows if row.kind == "same")
    if before[:1] == after[:1] != []:
        assert rows[0].kind == "same"


def test_a_page_has_so_many_lines_and_no_more(make_record, make_change):
    changes = [make_change(before=["x"] * 350, after=["y"] * 350)] * 200
    record = make_record(changes=changes) | {"seq": 1, "hash": "0", "prev": "0"}
    page = record_page.page(record, record_seal.Standing("", None, None), "/", []).decode()
    assert page.count("<tr>") < 11_000
    assert "more changes are in the JSON" in page
