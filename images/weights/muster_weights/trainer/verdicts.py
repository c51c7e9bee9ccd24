"""When a training ends because its sampler serves other weights than it trains."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["Watch", "bound_of", "unshown"]

_BOUNDS = {"float32": 0.005}
_OTHER = 0.05
_CLEAR, _LEAST = 20, 1e-5
_CURE = "Compare model, revision and dtype of both roles; MUSTER_WEIGHTS_BOUND sets another bound."


def bound_of(dtype: str) -> float:
    """Return the mean difference of log probabilities that is too large for a sampler of this type."""
    return _BOUNDS.get(dtype, _OTHER)


def unshown(mine: Sequence[float], theirs: Sequence[float], mine_before: Sequence[float], noise: float) -> float | None:
    """Return the share of an adapter's effect that a sampler does not show: 0 where it shows all, 1 where none.

    Args:
        mine: log probabilities of the trainer with the adapter, of some tokens.
        theirs: those of the sampler under the adapter's name.
        mine_before: those of the trainer without the adapter.
        noise: mean difference of both sides without the adapter.

    Returns:
        None while the effect is too small against the noise.
    """
    size = _mean([one - other for one, other in zip(mine, mine_before, strict=True)])
    if not size > max(_LEAST, _CLEAR * noise):
        return None
    return _mean([one - other for one, other in zip(mine, theirs, strict=True)]) / size


def _mean(values: Sequence[float]) -> float:
    return sum(map(abs, values)) / len(values)


class Watch:
    """Counts how many times in a row a difference was too large.

    Args:
        what: the difference, in words.
        bound: the largest that is right.
        patience: how many times in a row make a verdict.
        cure: what to do about it, a sentence.
    """

    def __init__(self, what: str, bound: float, patience: int, cure: str = _CURE) -> None:
        self._what = what
        self._bound = bound
        self._patience = patience
        self._cure = cure
        self._over = 0

    def seen(self, value: float) -> str | None:
        """Take a difference, and return the verdict when it is time for one. What is not a number is too large."""
        self._over = 0 if math.isfinite(value) and abs(value) <= self._bound else self._over + 1
        if self._over < self._patience:
            return None
        return (
            f"muster: the sampler serves other weights than are trained: {self._what} was over {self._bound:g}"
            f" {self._over} times in a row, now {value:.3g}. {self._cure}"
        )
