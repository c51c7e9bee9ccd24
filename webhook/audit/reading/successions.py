"""Hold each record of a log against those before it: is it the next one, and does it say so?

This is the part of verification that remembers. It reads on after a breach as an auditor would: an edited record still
keeps its place, a number that is missing may turn up later, and a second record of one number came from somewhere else.
So one deed is one breach, as far as the lines tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from webhook.audit.log import chain
from webhook.audit.log.files import LogLine
from webhook.audit.records import Link

__all__ = ["Breach", "Gap", "Succession"]

_Kind: TypeAlias = Literal["moved", "inserted", "replaced", "restarted"]


@dataclass(frozen=True, slots=True)
class Breach:
    """Why a record is not where it belongs."""

    kind: _Kind
    message: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers, `first` to `last`, that have not come although `line` came."""

    first: int
    last: int
    line: LogLine


class Succession:
    """Follows a log, record by record; `seq` is the last number in order, `first` the one the log begins with."""

    def __init__(self) -> None:
        self.seq: int | None = None
        self.first = 1
        self.line: LogLine | None = None
        self.gaps: list[Gap] = []
        self._hashes: frozenset[str] = frozenset()
        self._outer: tuple[int, frozenset[str]] | None = None

    def follow(self, link: Link, line: LogLine, *, trusted: bool) -> Breach | None:
        """Take the next record; `trusted` is false for an edited one, of which any part may be wrong."""
        self._come_back(link)
        expected = (self.seq or 0) + 1
        # What was edited may be the number itself; the link to the record before says better where it belongs.
        seq = expected if not trusted and link["prev"] in self._hashes else link["seq"]
        hashes = frozenset({link["hash"]} if trusted else {link["hash"], chain.digest_of(link)})
        if self.seq is None or (seq == 1 and link["prev"] == chain.GENESIS):
            return self._begin(seq, hashes, line, link["prev"])
        if seq < expected:
            return self._late(seq)
        breach = None
        if seq > expected:
            self.gaps.append(Gap(expected, seq - 1, line))
        elif link["prev"] not in self._hashes:
            breach = Breach("replaced", f"record {seq} does not follow the record {seq - 1} that stands before it")
        self._advance(seq, hashes, line)
        return breach

    def _begin(self, seq: int, hashes: frozenset[str], line: LogLine, prev: str) -> Breach | None:
        breach = None
        if self.seq is not None:
            breach = Breach("restarted", f"a new chain begins here, after record {self.seq}")
            self._outer = (self.seq, self._hashes)
        elif (seq == 1) != (prev == chain.GENESIS):
            breach = Breach("replaced", f"record {seq} does not follow the record that it should")
        if self.seq is None:
            self.first = seq
        self._advance(seq, hashes, line)
        return breach

    def _come_back(self, link: Link) -> None:
        """Take up the chain before a restart again when it goes on: the restart was a copied line."""
        if self._outer and link["prev"] in self._outer[1]:
            self.seq, self._hashes = self._outer
            self._outer = None

    def _late(self, seq: int) -> Breach:
        for index, gap in enumerate(self.gaps):
            if gap.first <= seq <= gap.last:
                parts = (Gap(gap.first, seq - 1, gap.line), Gap(seq + 1, gap.last, gap.line))
                self.gaps[index : index + 1] = [part for part in parts if part.first <= part.last]
                return Breach("moved", f"record {seq} stands after record {self.seq}")
        if seq < self.first:
            return Breach("moved", f"record {seq} stands after record {self.seq}")
        return Breach("inserted", f"this is a second record {seq}; one of the two was inserted")

    def _advance(self, seq: int, hashes: frozenset[str], line: LogLine) -> None:
        self.seq, self._hashes, self.line = seq, hashes, line
