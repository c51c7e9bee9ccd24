"""The numbers that a log lacks so far: a record that comes later fills its place, or part of it.

A log can be made of gaps only, and of records that fill them in any order. So a place is found by halving, and no more
than `KEPT` gaps are remembered: older ones are settled, which means that they are told as they are.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

__all__ = ["KEPT", "Gap", "Gaps"]

KEPT = 10_000
"""Gaps of one chain that are remembered."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The numbers `first` to `last`, which are missing before line `line` of `file`."""

    first: int
    last: int
    file: str
    line: int


class Gaps:
    """The gaps of one chain, each with higher numbers than the one before; `told` is the last number settled."""

    def __init__(self) -> None:
        self._gaps: list[Gap] = []
        self._lasts: list[int] = []
        self.told = 0

    def add(self, gap: Gap) -> list[Gap]:
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
        parts = (Gap(gap.first, seq - 1, gap.file, gap.line), Gap(seq + 1, gap.last, gap.file, gap.line))
        left = [part for part in parts if part.first <= part.last]
        self._gaps[index : index + 1] = left
        self._lasts[index : index + 1] = [part.last for part in left]
        return True

    def settle(self, kept: int = 0) -> list[Gap]:
        """Forget all gaps but the newest `kept`, and return the others."""
        count = max(len(self._gaps) - kept, 0)
        settled = self._gaps[:count]
        del self._gaps[:count], self._lasts[:count]
        self.told = settled[-1].last if settled else self.told
        return settled
