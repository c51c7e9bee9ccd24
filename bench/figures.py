"""Figures with their spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figure", "percentile", "rounds"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A quantity over rounds: median, smallest, largest."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """`median [low..high]`, three significant digits."""
        return f"{_short(self.median)} [{_short(self.low)}..{_short(self.high)}]"


def rounds(values: Sequence[float]) -> Figure:
    """Summarise one value per round."""
    return Figure(statistics.median(values), min(values), max(values))


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the sample below which a `share` of all samples lies."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
