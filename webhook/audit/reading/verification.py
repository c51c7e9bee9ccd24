"""Finds manipulations of a log after it was written.

Verification reads the lines once, in order, and compares each with the records before it. It distinguishes edited,
removed, moved, inserted and replaced lines, a line torn by a crash, and a chain that starts again in the middle. It
cannot find lines cut off at either end, or files rewritten with new hashes; for these, keep number and hash of some
records elsewhere and pass them as anchors (`anchors`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from muster.webhook.audit import schemas
from muster.webhook.audit.log import chain, parsing
from muster.webhook.audit.log.files import LogLine
from muster.webhook.audit.reading import successions
from muster.webhook.audit.reading.anchors import Expected
from muster.webhook.audit.reading.gaps import Gap
from muster.webhook.audit.records import Link

__all__ = ["Kind", "Problem", "verify"]

Kind: TypeAlias = Literal[
    "edited", "removed", "moved", "inserted", "replaced", "restarted", "torn", "foreign", "anchor"
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault and its place: `line` counts from 1, and is 0 for the whole log."""

    file: str
    line: int
    kind: Kind
    message: str

    def __str__(self) -> str:
        """Return `file:line: kind: message`, the form of compilers."""
        return f"{self.file}:{self.line}: {self.kind}: {self.message}"


def verify(
    lines: Iterable[LogLine], expected: Expected | None = None, *, restarts: bool = False, name: str = ""
) -> Iterator[Problem]:
    """Check the lines of one log, all its files in order (`files.lines(files.rotated(path))`).

    A log whose oldest files were rotated away begins in the middle of its chain; that is not a problem. Problems come
    in the order of the lines, but missing records come last, when it is certain that they were not moved.

    Args:
        lines: the log, oldest line first.
        expected: the records that must be there, by anchors that are kept elsewhere.
        restarts: accept chains that start again from genesis, as in the collected output of several processes.
        name: the log, for problems of the whole; by default the file of its last record.
    """
    succession = successions.Succession()
    for line in lines:
        link = _parsed(line)
        if isinstance(link, Problem):
            yield link
            continue
        own = _own(link, line)
        trusted = own is None or own.kind != "edited"
        if expected and trusted:
            expected.see(link)
        breach = succession.follow(link, line, trusted=trusted)
        yield from map(_removed, succession.settled())
        if own:
            yield own
        if breach and trusted and not (restarts and breach.kind == "restarted"):
            yield _problem(line, breach.kind, breach.message)
    yield from map(_removed, succession.remaining())
    if expected:
        file = name or (succession.line.file if succession.line else "")
        yield from (Problem(file, 0, "anchor", message) for message in expected.missing())


def _parsed(line: LogLine) -> Link | Problem:
    try:
        value = parsing.parse(line.data)
    except parsing.LineError as error:
        if error.is_torn:
            return _problem(line, "torn", "the record is incomplete; the process or its disk failed while writing it")
        return _problem(line, "foreign", f"this is not an audit record: {error}")
    if misfit := schemas.misfit(value, Link):
        return _problem(line, "foreign", f"this is not an audit record: {misfit}")
    return cast("Link", value)


def _own(link: Link, line: LogLine) -> Problem | None:
    """Check a record on its own, without its neighbours."""
    if chain.digest_of(link) != link["hash"]:
        return _problem(line, "edited", f"record {link['seq']} does not match its hash")
    if chain.line_of(link).removesuffix(b"\n") != line.data:
        return _problem(line, "edited", f"record {link['seq']} does not have the form in which Muster writes it")
    if misfit := schemas.misfit(link):
        return _problem(line, "foreign", f"record {link['seq']} does not fit the schema: {misfit}")
    return None


def _removed(gap: Gap) -> Problem:
    which = f"record {gap.first} is" if gap.first == gap.last else f"records {gap.first} to {gap.last} are"
    return Problem(gap.file, gap.line, "removed", f"{which} missing before this line")


def _problem(line: LogLine, kind: Kind, message: str) -> Problem:
    return Problem(line.file, line.number, kind, message)
