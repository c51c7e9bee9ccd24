"""What a training says at its end: how far its samples were behind, how many it threw away, and the ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Report"]

_RATIO, _STALE, _OLDEST, _DROPPED = (
    "ratio", "sample/staleness_mean", "sample/staleness_max", "sample/dropped_stale_total",
)  # fmt: skip


@dataclass(slots=True)
class Report:
    """Collects what TRL logs; one line of a log for each window of steps.

    Attributes:
        ratios: the importance ratio of each window: the trainer's probabilities over those of the sampler.
        staleness: versions by which samples were behind, the mean of each window.
        oldest: the most of them.
        dropped: samples that TRL threw away because they were too old.
    """

    ratios: list[float] = field(default_factory=list)
    staleness: list[float] = field(default_factory=list)
    oldest: float = 0.0
    dropped: int = 0

    def add(self, logs: Mapping[str, Any]) -> None:
        """Take what was logged."""
        if logs.get(_RATIO) is not None:
            self.ratios.append(float(logs[_RATIO]))
        if logs.get(_STALE) is not None:
            self.staleness.append(float(logs[_STALE]))
        self.oldest = max(self.oldest, float(logs.get(_OLDEST) or 0.0))
        self.dropped += int(logs.get(_DROPPED) or 0)

    def told(self, taken: int) -> dict[str, Any]:
        """Return what the training comes to.

        Args:
            taken: samples that the trainer took from its worker, those that it dropped among them.
        """
        return {
            "samples": taken - self.dropped,
            "dropped": self.dropped,
            "dropped_share": round(self.dropped / taken, 4) if taken else 0.0,
            "staleness_mean": round(sum(self.staleness) / len(self.staleness), 4) if self.staleness else None,
            "staleness_max": self.oldest,
            "ratio_mean": round(sum(self.ratios) / len(self.ratios), 6) if self.ratios else None,
            "ratio_min": min(self.ratios, default=None),
            "ratio_max": max(self.ratios, default=None),
        }
