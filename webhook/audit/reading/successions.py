"""Checks for each record of a log that it is the next one, and that it links to the one before it.

This is the part of verification with state. After a breach it continues like an auditor: an edited record keeps its
place, a missing number may come later, and a second record of one number was inserted. So one manipulation is reported
as one breach, as far as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from muster.webhook.audit.log import chain
from muster.webhook.audit.log.files import LogLine
from muster.webhook.audit.reading.gaps import Gap, Gaps
from muster.webhook.audit.records import Link

__all__ = ["Breach", "Succession"]

_Kind: TypeAlias = Literal["moved", "inserted", "replaced", "restarted"]


@dataclass(frozen=True, slots=True)
class Breach:
    """Why a record is not in its place."""

    kind: _Kind
    message: str


class Succession:
    """Follows a log, record by record; `seq` is the last number in order, `first` the first number of the log."""

    def __init__(self) -> None:
        self.seq: int | None = None
        self.first = 1
        self.line: LogLine | None = None
        self._gaps = Gaps()
        self._settled: list[Gap] = []
        self._hashes: frozenset[str] = frozenset()
        self._outer: tuple[int, frozenset[str], Gaps] | None = None

    def settled(self) -> list[Gap]:
        """Return, once, the gaps that no later record will fill."""
        settled, self._settled = self._settled, []
        return settled

    def remaining(self) -> list[Gap]:
        """Return all other gaps; called after the last record."""
        outer = self._outer[2].settle() if self._outer else []
        return [*outer, *self._gaps.settle()]

    def follow(self, link: Link, line: LogLine, *, trusted: bool) -> Breach | None:
        """Check the next record; `trusted` is false for an edited one, of which any part may be wrong."""
        self._come_back(link)
        expected = (self.seq or 0) + 1
        # The number itself may be edited; the link to the record before shows its place more reliably.
        seq = expected if not trusted and link["prev"] in self._hashes else link["seq"]
        hashes = frozenset({link["hash"]} if trusted else {link["hash"], chain.digest_of(link)})
        if self.seq is None or (seq == 1 and link["prev"] == chain.GENESIS):
            return self._begin(seq, hashes, line, link["prev"])
        if seq < expected:
            return self._late(seq)
        breach = None
        if seq > expected:
            self._settled += self._gaps.add(Gap(expected, seq - 1, line.file, line.number))
        elif link["prev"] not in self._hashes:
            breach = Breach("replaced", f"record {seq} does not follow record {seq - 1}, which is before it")
        self._advance(seq, hashes, line)
        return breach

    def _begin(self, seq: int, hashes: frozenset[str], line: LogLine, prev: str) -> Breach | None:
        breach = None
        if self.seq is not None:
            breach = Breach("restarted", f"a new chain begins here, after record {self.seq}")
            self._leave(self.seq)
        elif (seq == 1) != (prev == chain.GENESIS):
            breach = Breach("replaced", f"record {seq} does not follow the record that it links to")
        if self.seq is None:
            self.first = seq
        self._advance(seq, hashes, line)
        return breach

    def _leave(self, seq: int) -> None:
        """Keep the chain before a restart in mind, and only that one."""
        self._settled += self._outer[2].settle() if self._outer else []
        self._outer, self._gaps = (seq, self._hashes, self._gaps), Gaps()

    def _come_back(self, link: Link) -> None:
        """Return to the chain before a restart when it continues: the restart was a copied line."""
        if self._outer and link["prev"] in self._outer[1]:
            self._settled += self._gaps.settle()
            self.seq, self._hashes, self._gaps = self._outer
            self._outer = None

    def _late(self, seq: int) -> Breach:
        chains = [self._outer[2], self._gaps] if self._outer else [self._gaps]
        if any(each.fill(seq) for each in chains) or seq < self.first or seq <= self._gaps.told:
            return Breach("moved", f"record {seq} comes after record {self.seq}")
        return Breach("inserted", f"this is a second record {seq}; one of the two was inserted")

    def _advance(self, seq: int, hashes: frozenset[str], line: LogLine) -> None:
        self.seq, self._hashes, self.line = seq, hashes, line
