"""What a training says at its end: how far its samples were behind, how many it threw away, and the ratio."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Report"]

_RATIO, _KL, _TOKENS, _STALE, _OLDEST, _DROPPED = (
    "ratio", "kl", "batch/trained_tokens_per_step",
    "sample/staleness_mean", "sample/staleness_max", "sample/dropped_stale_total",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Window:
    """Steps between two lines of a log: their tokens, the mean ratio and the mean of ratio - 1 - log(ratio)."""

    tokens: float
    ratio: float
    divergence: float


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
    _windows: list[_Window] = field(default_factory=list)
    _step: int = 0

    def add(self, logs: Mapping[str, Any], step: int = 0) -> None:
        """Take what was logged after `step` steps of the optimizer; 0 where nobody knows how many."""
        steps, self._step = max(1, step - self._step), step
        if None not in (logs.get(_RATIO), logs.get(_KL), logs.get(_TOKENS)):
            self._windows.append(_Window(steps * float(logs[_TOKENS]), float(logs[_RATIO]), float(logs[_KL])))
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
        mean, error = self._mean()
        return {
            "samples": taken - self.dropped,
            "dropped": self.dropped,
            "dropped_share": round(self.dropped / taken, 4) if taken else 0.0,
            "staleness_mean": round(sum(self.staleness) / len(self.staleness), 4) if self.staleness else None,
            "staleness_max": self.oldest,
            "ratio_mean": mean,
            "ratio_error": error,
            "ratio_min": min(self.ratios, default=None),
            "ratio_max": max(self.ratios, default=None),
        }

    def _mean(self) -> tuple[float | None, float | None]:
        """Return the mean ratio over all tokens, and its standard error.

        Where samples are drawn with the probabilities that the sampler told, a ratio is 1 in the mean whatever the
        trainer has learned meanwhile, and tokens are independent in this. Its variance is about twice the mean of
        ratio - 1 - log(ratio), http://joschu.net/blog/kl-approx.html.
        """
        tokens = sum(each.tokens for each in self._windows)
        if not tokens:
            return (round(sum(self.ratios) / len(self.ratios), 6) if self.ratios else None), None
        mean = sum(each.tokens * each.ratio for each in self._windows) / tokens
        variance = sum(2 * each.tokens * max(0.0, each.divergence) for each in self._windows)
        return round(mean, 6), round(math.sqrt(variance) / tokens, 6)
