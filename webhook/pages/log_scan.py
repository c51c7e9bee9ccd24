"""Searches the logs back from their newest end, within the budget of one request.

There is no index: a log is searched by reading it. A search with few results would take minutes, so a scan ends after a
number of lines or bytes, and returns how far it came and a cursor for the next scan.
"""

from __future__ import annotations

import contextlib
import datetime
import heapq
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from muster.audit import log_files, queries, record_schema
from muster.audit.record_schema import Sealed
from muster.webhook.pages.log_places import Found, LinePlace, Shelf

__all__ = ["Budget", "Cursor", "Row", "Scan", "job_key", "job_root", "scan"]

_UNKNOWN = "9999"  # the time of lines after the last line with one; later than every time
_SLACK = datetime.timedelta(minutes=10)  # by which times of neighbours may be out of order, as clocks are set back
_MAX_LOGS = 64


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one scan: rows that it returns, jobs that these are about, lines and bytes that it reads."""

    rows: int = 50
    jobs: int = 50
    lines: int = 60_000
    data: int = 96 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place before which each log continues; a log that is not named continues at its newest end."""

    logs: dict[int, LinePlace] = field(default_factory=dict)

    def __str__(self) -> str:
        return "~".join(str(place) for _, place in sorted(self.logs.items()))

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Parse a cursor; GoneError when the text is not one."""
        places = [LinePlace.parse(part) for part in text.split("~", _MAX_LOGS)]
        return cls({place.log: place for place in places})


@dataclass(frozen=True, slots=True)
class Row:
    """One line that was found; a line without a record has an entry with the reason."""

    found: Found
    entry: queries.Entry


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan.

    Attributes:
        rows: newest first.
        older: where the next scan continues; None when everything was read.
        lines: number of lines that were read.
        reached: time of the oldest record that was read, "" when there was none.
    """

    rows: tuple[Row, ...]
    older: Cursor | None
    lines: int
    reached: str


def scan(
    shelf: Shelf,
    questions: queries.Questions,
    cursor: Cursor | None = None,
    *,
    unreadable: bool = False,
    budget: Budget | None = None,
) -> Scan:
    """Return the next rows, newest first; the logs are merged by time.

    Args:
        shelf: the logs.
        questions: the conditions for records.
        cursor: the cursor of the previous scan.
        unreadable: whether to search for lines without a record instead.
        budget: the limits.

    Raises:
        GoneError: the file of the cursor was deleted.
        OSError: a file cannot be read.
    """
    budget = budget or Budget()
    logs = dict(cursor.logs) if cursor else {}
    rows: list[Row] = []
    jobs: set[tuple[str, str] | int] = set()
    lines = read = 0
    reached = ""
    with contextlib.closing(_walk(shelf, logs, questions.since)) as walked:
        for time, row in walked:
            place, record = row.found.place, row.entry.record
            if _is_wanted(record, questions, unreadable=unreadable):
                jobs.add(job_key(record) if record else lines)
                if len(jobs) > budget.jobs:  # this line begins the next page
                    return Scan(tuple(rows), Cursor(logs), lines, reached)
                rows.append(row)
            lines, read = lines + 1, read + row.found.weight
            reached = reached if time == _UNKNOWN else time
            logs[place.log] = place
            if len(rows) >= budget.rows or lines >= budget.lines or read >= budget.data:
                return Scan(tuple(rows), Cursor(logs), lines, reached)
    return Scan(tuple(rows), None, lines, reached)


def _walk(shelf: Shelf, logs: Mapping[int, LinePlace], since: datetime.datetime | None) -> Generator[tuple[str, Row]]:
    """Yield the lines of all logs newest first, merged by time, each with its time."""
    begins = dict(logs)  # where each log continues; one that is not named begins at its newest end
    with contextlib.ExitStack() as stack:
        streams = [
            stack.enter_context(contextlib.closing(_timed(shelf, log, begins.get(log), since)))
            for log in range(len(shelf.paths))
        ]
        yield from heapq.merge(*streams, key=lambda each: each[0], reverse=True)


def _timed(
    shelf: Shelf, log: int, before: LinePlace | None, since: datetime.datetime | None
) -> Generator[tuple[str, Row]]:
    """Read a log back, each line with a time; a line without one gets that of the line after it."""
    last = _UNKNOWN
    oldest = record_schema.timestamp(since - _SLACK) if since else ""
    for found in shelf.upwards(log, before):
        entry = queries.entry_of(log_files.LogLine(str(found.path), 0, found.data))
        last = entry.record["time"] if entry.record else last
        if last < oldest:
            return
        yield last, Row(found, entry)


def _is_wanted(record: Sealed | None, questions: queries.Questions, *, unreadable: bool) -> bool:
    if record is None:
        return unreadable or questions == queries.Questions()
    return not unreadable and questions.answered_by(record)


def job_root(record: Sealed) -> str:
    """Return the name of the job: of the TrainJob that owns the JobSet, or its own; a `generateName` ends in a star."""
    return record["owner"]["name"] if record["owner"] else record_schema.job_name(record)


def job_key(record: Sealed) -> tuple[str, str]:
    """Return namespace and name of the job that a record is about."""
    return record["object"]["namespace"], job_root(record)
