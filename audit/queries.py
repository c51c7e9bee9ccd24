"""Searches the log: what was decided about this job, for which user, since yesterday?

Files may be damaged by crashes and edits: a line without a record is an entry with a problem, not an error, so that one
bad line does not hide the others. The search is lazy, so the log may be larger than memory.
"""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.audit import chain, log_files
from muster.audit.record_schema import SCHEMA, Decision, Sealed, misfit

__all__ = ["Entry", "Questions", "entry_of", "moment", "parsed", "read", "select"]

_RELATIVE = re.compile(r"(\d{1,9})(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a log: its `record`, or the `problem` when it has no record."""

    file: str
    line: int
    record: Sealed | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Questions:
    """The conditions of a search; None is not a condition.

    Attributes:
        job: name or generateName of the job, or name of the TrainJob that owns the JobSet.
        namespace: the namespace of the job.
        user: the name of the user.
        decision: the decision.
        since: this time or later; with a time zone.
        until: before this time; with a time zone.
        framework: the framework of the runtime.
        kind: TrainJob, JobSet or OptimizationJob, upper or lower case.
        rule: the rule of a change or a finding.
        text: part of a reason, a message or a field of the record, upper or lower case.
        uid: the uid of the admission request.

    `job`, `namespace`, `user`, `framework` and `rule` may contain the wildcards `*`, `?` and `[...]`.
    """

    job: str | None = None
    namespace: str | None = None
    user: str | None = None
    decision: Decision | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    framework: str | None = None
    kind: str | None = None
    rule: str | None = None
    text: str | None = None
    uid: str | None = None

    def answered_by(self, record: Sealed) -> bool:
        """Whether a record meets all conditions."""
        return (
            self.decision in {None, record["decision"]}
            and self.uid in {None, record["uid"]}
            and _matches(self.job, *_names(record))
            and _matches(self.namespace, record["object"]["namespace"])
            and _matches(self.user, record["user"]["username"])
            and _matches(self.framework, record["framework"] or "")
            and (self.kind is None or self.kind.lower() == record["object"]["kind"].lower())
            and (self.rule is None or _matches(self.rule, *_rules(record)))
            and (self.text is None or _says(record, self.text.casefold()))
            and _within(record, self.since, self.until)
        )


def read(paths: Iterable[Path]) -> Iterator[Entry]:
    """Yield the entries of files in the given order; OSError names one that cannot be read."""
    return parsed(log_files.lines(paths))


def parsed(lines: Iterable[log_files.LogLine]) -> Iterator[Entry]:
    """Make an entry of each line, `log_files.numbered(sys.stdin.buffer, "stdin")` for instance."""
    for line in lines:
        if line.data != b"":
            yield entry_of(line)


def entry_of(line: log_files.LogLine) -> Entry:
    """Make an entry of one line."""
    try:
        value = chain.parse(line.data)
    except chain.LineError as error:
        kind = "an incomplete record" if error.is_torn else f"not an audit record: {error}"
        return Entry(line.file, line.number, None, kind)
    if unfit := misfit(value):
        return Entry(line.file, line.number, None, f"not a record of {SCHEMA}: {unfit}")
    return Entry(line.file, line.number, value)


def select(entries: Iterable[Entry], questions: Questions) -> Iterator[Entry]:
    """Yield the entries whose records meet all conditions; entries without a record are left out."""
    for entry in entries:
        if entry.record is not None and questions.answered_by(entry.record):
            yield entry


_DAY = datetime.timedelta(days=1)


def moment(text: str, now: datetime.datetime) -> datetime.datetime:
    """Read a point in time: RFC 3339 (`2026-03-01T08:00:00Z`), or how long before `now` (`30s`, `15m`, `2h`, `1d`).

    A time without an offset raises ValueError, because its meaning would depend on the machine.
    """
    with contextlib.suppress(ValueError, OverflowError):
        if relative := _RELATIVE.fullmatch(text.strip()):
            point = now - datetime.timedelta(**{_UNITS[relative[2]]: int(relative[1])})
        else:
            point = datetime.datetime.fromisoformat(text.strip())
        if point.tzinfo is not None:
            _ = point.astimezone(datetime.UTC) - _DAY  # no calendar has what overflows here
            return point
    raise ValueError(f"{text!r} is not a time; write one like 2026-03-01T08:00:00Z, or 15m, 2h, 1d for that long ago")


def _names(record: Sealed) -> Iterator[str]:
    yield record["object"]["name"]
    yield record["object"].get("generateName", "")
    if record["owner"]:
        yield record["owner"]["name"]


def _rules(record: Sealed) -> Iterator[str]:
    yield from (change["rule"] for change in record["changes"])
    yield from (finding["rule"] for finding in record["findings"])


def _says(record: Sealed, folded: str) -> bool:
    return any(folded in part.casefold() for part in _sayings(record))


def _sayings(record: Sealed) -> Iterator[str]:
    yield record.get("message", "")
    for change in record["changes"]:
        yield from (change["field"], change["reason"])
    for finding in record["findings"]:
        yield from (finding["field"], finding["message"])


def _matches(pattern: str | None, *values: str) -> bool:
    return pattern is None or any(fnmatch.fnmatchcase(value, pattern) for value in values)


def _within(record: Sealed, since: datetime.datetime | None, until: datetime.datetime | None) -> bool:
    if since is None and until is None:
        return True
    try:
        time = datetime.datetime.fromisoformat(record["time"])
    except ValueError:  # the 31st of February has the right form but does not exist
        return False
    return (since is None or time >= since) and (until is None or time < until)
