from __future__ import annotations

import datetime

import pytest

from muster.audit import chain, queries
from muster.webhook.pages import log_scan
from muster.webhook.pages.log_places import GoneError, Shelf

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
ANY = queries.Questions()


def at(minute):
    return f"2026-03-01T10:{minute:02d}:00.000000Z"


@pytest.fixture
def written(tmp_path, make_record):
    """Write a log: one record for each minute, its uid as given by `name`; returns its path."""

    def write(name, minutes, **fields):
        link, path = chain.Chain(), tmp_path / f"{name}.log"
        path.write_bytes(
            b"".join(link.seal(make_record(uid=f"{name}{minute}", time=at(minute), **fields)) for minute in minutes)
        )
        return path

    return write


def uids(found):
    return [row.entry.record["uid"] if row.entry.record else row.entry.problem for row in found.rows]


def test_rows_are_the_newest_first_and_the_cursor_leads_through_all_of_them(written):
    shelf = Shelf([written("a", range(7))])
    seen, cursor = [], None
    for _ in range(3):
        found = log_scan.scan(shelf, ANY, cursor, budget=log_scan.Budget(rows=3))
        seen.append(uids(found))
        cursor = log_scan.Cursor.parse(str(found.older)) if found.older else None
    assert seen == [["a6", "a5", "a4"], ["a3", "a2", "a1"], ["a0"]]
    assert cursor is None


def test_logs_of_several_replicas_are_merged_by_time(written):
    shelf = Shelf([written("a", (1, 4, 5)), written("b", (2, 3, 6))])
    seen, cursor = [], None
    while True:
        found = log_scan.scan(shelf, ANY, cursor, budget=log_scan.Budget(rows=2))
        seen += uids(found)
        if found.older is None:
            break
        cursor = found.older
    assert seen == ["b6", "a5", "a4", "b3", "b2", "a1"]


def test_a_scan_ends_at_its_budget_says_how_far_it_came_and_can_go_on(written):
    shelf = Shelf([written("a", range(30))])
    rare = queries.Questions(uid="a3")
    found = log_scan.scan(shelf, rare, budget=log_scan.Budget(lines=20))
    assert (uids(found), found.lines, found.reached) == ([], 20, at(10))
    found = log_scan.scan(shelf, rare, found.older, budget=log_scan.Budget(lines=20))
    assert (uids(found), found.older, found.lines) == (["a3"], None, 10)


def test_bytes_count_as_well(written):
    path = written("a", range(30))
    found = log_scan.scan(
        Shelf([path]), queries.Questions(uid="none"), budget=log_scan.Budget(data=path.stat().st_size // 2)
    )
    assert 14 <= found.lines <= 16
    assert found.older is not None


def test_records_that_come_meanwhile_do_not_move_the_pages(written, make_record):
    path = written("a", range(4))
    first = log_scan.scan(Shelf([path]), ANY, budget=log_scan.Budget(rows=2))
    with path.open("ab") as stream:
        stream.write(chain.Chain(4, "0" * 64).seal(make_record(uid="new", time=at(9))))
    assert uids(log_scan.scan(Shelf([path]), ANY, first.older)) == ["a1", "a0"]


def test_reading_ends_where_the_time_asked_for_begins(written):
    shelf = Shelf([written("a", range(40))])
    since = datetime.datetime(2026, 3, 1, 10, 38, tzinfo=datetime.UTC)
    found = log_scan.scan(shelf, queries.Questions(since=since))
    assert uids(found) == ["a39", "a38"]
    assert found.lines < 20


def test_lines_without_a_record_stand_where_they_are_and_can_be_asked_for(written):
    path = written("a", range(3))
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(first + b"\nTraceback\n" + b'{"schema": 1}\n' + rest + b'{"torn')
    shelf = Shelf([path])
    problems = [
        "an incomplete record",
        "not a record of muster.dev/audit/v1: schema: 1 is not a string",
        "not an audit record: it is not JSON",
    ]
    assert uids(log_scan.scan(shelf, ANY)) == [problems[0], "a2", "a1", problems[1], problems[2], "a0"]
    assert uids(log_scan.scan(shelf, ANY, unreadable=True)) == problems
    assert uids(log_scan.scan(shelf, queries.Questions(uid="a1"))) == ["a1"]


def test_a_record_that_was_spoilt_is_not_hidden_by_a_filter_that_it_may_answer(written):
    path = written("a", range(2))
    path.write_bytes(path.read_bytes().replace(b'"decision":"patched"', b'"decision":"forged"', 1))
    found = log_scan.scan(Shelf([path]), ANY)
    assert uids(found)[0] == "a1"
    assert "decision: 'forged' is not one of" in uids(found)[1]


@pytest.mark.parametrize("text", ["x", "~", "0.0123456789abcdef.1~x"])
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(GoneError):
        log_scan.Cursor.parse(text)


def test_a_cursor_in_a_deleted_file_is_gone(written):
    path = written("a", range(4))
    found = log_scan.scan(Shelf([path]), ANY, budget=log_scan.Budget(rows=2))
    path.unlink()
    with pytest.raises(GoneError, match="deleted by rotation"):
        log_scan.scan(Shelf([path]), ANY, found.older)
