"""Finds manipulations of a log after it was written.

Verification reads the lines once, in order, and compares each with the records before it. It distinguishes edited,
removed, moved, inserted and replaced lines, a line torn by a crash, and a chain that starts again in the middle. It
cannot find lines cut off at either end, or files rewritten with new hashes; for these, keep number and hash of some
records elsewhere and pass one as the anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import orjson

from webhook.audit import schemas
from webhook.audit.log import chain
from webhook.audit.log.files import LogLine
from webhook.audit.reading import successions
from webhook.audit.records import Link

__all__ = ["Anchor", "Kind", "Problem", "verify"]

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


@dataclass(frozen=True, slots=True)
class Anchor:
    """A note that is kept elsewhere: record `seq` of this log has this `hash`."""

    seq: int
    hash: str


def verify(lines: Iterable[LogLine], anchor: Anchor | None = None, *, restarts: bool = False) -> Iterator[Problem]:
    """Check the lines of one log, all its files in order (`files.lines(files.rotated(path))`).

    A log whose oldest files were rotated away begins in the middle of its chain; that is not a problem. Problems come
    in the order of the lines, but missing records come last, when it is certain that they were not moved.

    Args:
        lines: the log, oldest line first.
        anchor: number and hash of a record that must be there.
        restarts: accept chains that start again from genesis, as in the collected output of several processes.
    """
    succession = successions.Succession()
    anchored = anchor is None
    for line in lines:
        link = _parsed(line)
        if isinstance(link, Problem):
            yield link
            continue
        own = _own(link, line)
        trusted = own is None or own.kind != "edited"
        anchored = anchored or (trusted and anchor == Anchor(link["seq"], link["hash"]))
        breach = succession.follow(link, line, trusted=trusted)
        if own:
            yield own
        if breach and trusted and not (restarts and breach.kind == "restarted"):
            yield _problem(line, breach.kind, breach.message)
    yield from (_removed(gap) for gap in succession.gaps)
    if anchor and not anchored:
        yield _unanchored(anchor, succession)


def _parsed(line: LogLine) -> Link | Problem:
    try:
        value = orjson.loads(line.data)
    except orjson.JSONDecodeError:
        if line.data.startswith(b"{"):
            return _problem(line, "torn", "the record is incomplete; the process or its disk failed while writing it")
        return _problem(line, "foreign", "this is not an audit record")
    if schemas.is_link(value):
        return value
    return _problem(line, "foreign", f"this is not an audit record: {schemas.check(value, Link)[0]}")


def _own(link: Link, line: LogLine) -> Problem | None:
    """Check a record on its own, without its neighbours."""
    if chain.digest_of(link) != link["hash"]:
        return _problem(line, "edited", f"record {link['seq']} does not match its hash")
    if chain.line_of(link) != line.data + b"\n":
        return _problem(line, "edited", f"record {link['seq']} does not have the form in which Muster writes it")
    misfits = schemas.check(link)
    if misfits:
        return _problem(line, "foreign", f"record {link['seq']} does not fit the schema: {misfits[0]}")
    return None


def _removed(gap: successions.Gap) -> Problem:
    which = f"record {gap.first} is" if gap.first == gap.last else f"records {gap.first} to {gap.last} are"
    return _problem(gap.line, "removed", f"{which} missing before this line")


def _unanchored(anchor: Anchor, succession: successions.Succession) -> Problem:
    last = succession.seq or 0
    if anchor.seq > last:
        found = f"the log ends at record {last}: its end was cut off"
    elif anchor.seq < succession.first:
        found = f"the log begins at record {succession.first}: older files are missing"
    else:
        found = "the log does not have it: it was removed, or the log was rewritten"
    file = succession.line.file if succession.line else ""
    return Problem(file, 0, "anchor", f"record {anchor.seq} with hash {anchor.hash} is expected, but {found}")


def _problem(line: LogLine, kind: Kind, message: str) -> Problem:
    return Problem(line.file, line.number, kind, message)
