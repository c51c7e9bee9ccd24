"""When a training ends because its sampler serves other weights than it trains."""

from __future__ import annotations

import math

__all__ = ["Watch", "bound_of"]

_BOUNDS = {"float32": 0.005}
_OTHER = 0.05


def bound_of(dtype: str) -> float:
    """Return the mean difference of log probabilities that is too large for a sampler of this type."""
    return _BOUNDS.get(dtype, _OTHER)


class Watch:
    """Counts how many times in a row a difference was too large.

    Args:
        what: the difference, in words.
        bound: the largest that is right.
        patience: how many times in a row make a verdict.
    """

    def __init__(self, what: str, bound: float, patience: int) -> None:
        self._what = what
        self._bound = bound
        self._patience = patience
        self._over = 0

    def seen(self, value: float) -> str | None:
        """Take a difference, and return the verdict when it is time for one. What is no number is too large."""
        self._over = 0 if math.isfinite(value) and abs(value) <= self._bound else self._over + 1
        if self._over < self._patience:
            return None
        return (
            f"muster: the sampler serves other weights than are trained: {self._what} was over {self._bound:g}"
            f" {self._over} times in a row, now {value:.3g}. Compare model, revision and dtype of both roles;"
            " MUSTER_WEIGHTS_BOUND sets another bound."
        )
