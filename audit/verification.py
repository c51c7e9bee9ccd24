"""Finds manipulations of a log after it was written.

Verification reads the lines once, in order, and compares each with the records before it. It distinguishes edited,
removed, moved, inserted and replaced lines, a line torn by a crash, and a chain that starts again in the middle. It
cannot find lines cut off at either end, or files rewritten with new hashes; for these, keep number and hash of some
records elsewhere and pass them as anchors (`anchor_notes`).

After a breach, verification continues like an auditor: an edited record keeps its place, a missing number may come
later, and a second record of one number was inserted. So one manipulation is one problem, as far as possible.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from muster.audit import chain
from muster.audit.anchor_notes import Expected
from muster.audit.log_files import LogLine
from muster.audit.record_schema import Link, Sealed, event_name, misfit

__all__ = ["KEPT", "Kind", "Problem", "verify"]

KEPT = 10_000
"""Gaps of one chain that are remembered; older ones are settled, which means that they are reported as they are."""

Kind: TypeAlias = Literal[
    "edited", "removed", "moved", "inserted", "replaced", "restarted", "torn", "foreign", "anchor", "begins", "unclean"
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault and its place, or a limit of what is known: `line` counts from 1, and is 0 for the whole log."""

    file: str
    line: int
    kind: Kind
    message: str

    @property
    def is_fault(self) -> bool:
        """Whether somebody, or a failure, changed what was written."""
        return self.kind not in {"begins", "unclean"}

    def __str__(self) -> str:
        """Return `file:line: kind: message`, the form of compilers."""
        return f"{self.file}:{self.line}: {self.kind}: {self.message}"


def verify(
    lines: Iterable[LogLine], expected: Expected | None = None, *, restarts: bool = False, name: str = ""
) -> Iterator[Problem]:
    """Check the lines of one log, all its files in order (`files.lines(log_files.rotated(path))`).

    A log whose oldest files were rotated away begins in the middle of its chain; that is no fault, and neither is a
    start after a process that was killed. Problems come in the order of the lines, but missing records come last, when
    it is certain that they were not moved, and then what is not known.

    Args:
        lines: the log, oldest line first.
        expected: the records that must be there, by anchors that are kept elsewhere.
        restarts: accept chains that start again from genesis, as in the collected output of several processes.
        name: the log, for problems of the whole; by default the file of its last record.
    """
    succession, beginnings = _Succession(), _Beginnings()
    before = ("", 0)
    for line in lines:
        is_end = line.data == b""
        if empty := line.number - (before[1] if line.file == before[0] else 0) - (not is_end):
            told = "1 line is" if empty == 1 else f"{empty} lines are"
            where = "at the end of this file" if is_end else "before this line"
            yield _problem(line, "removed", f"{told} empty {where}; Muster writes no empty line")
        before = (line.file, line.number)
        if is_end:
            continue
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
        beginnings.see(link, line, "" if own else event_name(link))
        if own:
            yield own
        if breach and trusted and not (restarts and breach.kind == "restarted"):
            yield breach
    yield from map(_removed, succession.remaining())
    yield from beginnings.told()
    if expected:
        file = name or (succession.line.file if succession.line else "")
        yield from (Problem(file, 0, "anchor", message) for message in expected.missing())


def _parsed(line: LogLine) -> Link | Problem:
    try:
        value = chain.parse(line.data)
    except chain.LineError as error:
        if error.is_torn:
            return _problem(line, "torn", "the record is incomplete; the process or its disk failed while writing it")
        return _problem(line, "foreign", f"this is not an audit record: {error}")
    if unfit := misfit(value, Link):
        return _problem(line, "foreign", f"this is not an audit record: {unfit}")
    return cast("Link", value)


def _own(link: Link, line: LogLine) -> Problem | None:
    """Check a record on its own, without its neighbours."""
    if flaw := chain.flaw(link, line.data or b""):
        return _problem(line, "edited", f"record {link['seq']} {flaw}")
    if unfit := misfit(link):
        return _problem(line, "foreign", f"record {link['seq']} does not fit the schema: {unfit}")
    return None


def _removed(gap: _Gap) -> Problem:
    which = f"record {gap.first} is" if gap.first == gap.last else f"records {gap.first} to {gap.last} are"
    return Problem(gap.file, gap.line, "removed", f"{which} missing before this line")


def _problem(line: LogLine, kind: Kind, message: str) -> Problem:
    return Problem(line.file, line.number, kind, message)


class _Beginnings:
    """What is not known of a log: what stood before its first record, and the ends of processes that were killed."""

    def __init__(self) -> None:
        self._first: Problem | None = None
        self._is_empty = True
        self._unclean = 0
        self._killed: LogLine | None = None  # the first line after a process that was killed

    def see(self, link: Link, line: LogLine, name: str) -> None:
        """Take note of a record; `name` is that of its event, "" for none and in a record that was changed."""
        if name == "log_started" and cast("Sealed", link)["event"]["details"].get("status") != "clean":
            self._unclean, self._killed = self._unclean + 1, self._killed or line
        if self._is_empty and link["seq"] != 1:
            message = f"this chain begins at record {link['seq']}; what stood before is not known"
            self._first = _problem(line, "begins", message)
            if name == "log_damaged":
                self._first = _problem(line, "removed", f"{message}, since the file was damaged while it was written")
        self._is_empty = False

    def told(self) -> Iterator[Problem]:
        """Yield what was seen; called after the last record."""
        if self._first:
            yield self._first
        if self._killed:
            starts = "1 start" if self._unclean == 1 else f"{self._unclean} starts"
            message = f"{starts} without a clean end: reviews of the last moments before each may be missing"
            yield _problem(self._killed, "unclean", message)


class _Succession:
    """Follows a log, record by record; `seq` is the last number in order, `first` the first number of the log."""

    def __init__(self) -> None:
        self.seq: int | None = None
        self.first = 1
        self.line: LogLine | None = None
        self._gaps = _Gaps()
        self._settled: list[_Gap] = []
        self._hashes: frozenset[str] = frozenset()
        self._outer: tuple[int, frozenset[str], _Gaps] | None = None

    def settled(self) -> list[_Gap]:
        """Return, once, the gaps that no later record will fill."""
        settled, self._settled = self._settled, []
        return settled

    def remaining(self) -> list[_Gap]:
        """Return all other gaps; called after the last record."""
        outer = self._outer[2].settle() if self._outer else []
        return [*outer, *self._gaps.settle()]

    def follow(self, link: Link, line: LogLine, *, trusted: bool) -> Problem | None:
        """Check the next record; `trusted` is false for an edited one, of which any part may be wrong."""
        self._come_back(link)
        expected = (self.seq or 0) + 1
        # The number itself may be edited; the link to the record before shows its place more reliably.
        seq = expected if not trusted and link["prev"] in self._hashes else link["seq"]
        hashes = frozenset({link["hash"]} if trusted else {link["hash"], chain.digest_of(link)})
        if self.seq is None or (seq == 1 and link["prev"] == chain.GENESIS):
            return self._begin(seq, hashes, line, link["prev"])
        if seq < expected:
            return self._late(seq, line)
        breach = None
        if seq > expected:
            self._settled += self._gaps.add(_Gap(expected, seq - 1, line.file, line.number))
        elif link["prev"] not in self._hashes:
            breach = _problem(line, "replaced", f"record {seq} does not follow record {seq - 1}, which is before it")
        self._advance(seq, hashes, line)
        return breach

    def _begin(self, seq: int, hashes: frozenset[str], line: LogLine, prev: str) -> Problem | None:
        breach = None
        if self.seq is not None:
            breach = _problem(line, "restarted", f"a new chain begins here, after record {self.seq}")
            self._leave(self.seq)
        elif (seq == 1) != (prev == chain.GENESIS):
            breach = _problem(line, "replaced", f"record {seq} does not follow the record that it links to")
        if self.seq is None:
            self.first = seq
        self._advance(seq, hashes, line)
        return breach

    def _leave(self, seq: int) -> None:
        """Keep the chain before a restart in mind, and only that one."""
        self._settled += self._outer[2].settle() if self._outer else []
        self._outer, self._gaps = (seq, self._hashes, self._gaps), _Gaps()

    def _come_back(self, link: Link) -> None:
        """Return to the chain before a restart when it continues: the restart was a copied line."""
        if self._outer and link["prev"] in self._outer[1]:
            self._settled += self._gaps.settle()
            self.seq, self._hashes, self._gaps = self._outer
            self._outer = None

    def _late(self, seq: int, line: LogLine) -> Problem:
        chains = [self._outer[2], self._gaps] if self._outer else [self._gaps]
        if any(each.fill(seq) for each in chains) or seq < self.first or seq <= self._gaps.settled:
            return _problem(line, "moved", f"record {seq} comes after record {self.seq}")
        return _problem(line, "inserted", f"this is a second record {seq}; one of the two was inserted")

    def _advance(self, seq: int, hashes: frozenset[str], line: LogLine) -> None:
        self.seq, self._hashes, self.line = seq, hashes, line


@dataclass(frozen=True, slots=True)
class _Gap:
    """The numbers `first` to `last`, which are missing before line `line` of `file`."""

    first: int
    last: int
    file: str
    line: int


class _Gaps:
    """The numbers that a chain lacks so far, in gaps with rising numbers; `settled` is the last settled number."""

    def __init__(self) -> None:
        self._gaps: list[_Gap] = []
        self._lasts: list[int] = []
        self.settled = 0

    def add(self, gap: _Gap) -> list[_Gap]:
        """Remember a gap behind all others; return those that are settled by it."""
        self._gaps.append(gap)
        self._lasts.append(gap.last)
        return self.settle(KEPT // 2) if len(self._gaps) > KEPT else []

    def fill(self, seq: int) -> bool:
        """Take a number out of the gap that it is in; False when it is in none."""
        index = bisect.bisect_left(self._lasts, seq)
        if index == len(self._gaps) or seq < self._gaps[index].first:
            return False
        gap = self._gaps[index]
        parts = (_Gap(gap.first, seq - 1, gap.file, gap.line), _Gap(seq + 1, gap.last, gap.file, gap.line))
        left = [part for part in parts if part.first <= part.last]
        self._gaps[index : index + 1] = left
        self._lasts[index : index + 1] = [part.last for part in left]
        return True

    def settle(self, kept: int = 0) -> list[_Gap]:
        """Forget all gaps but the newest `kept`, and return the others."""
        count = max(len(self._gaps) - kept, 0)
        settled = self._gaps[:count]
        del self._gaps[:count], self._lasts[:count]
        self.settled = settled[-1].last if settled else self.settled
        return settled
