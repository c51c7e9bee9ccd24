"""How long to wait before trying again.

The bound of a pause doubles with each failure in a row. Callers of the API server use full jitter, any part of the
bound, so that replicas that lost the API server at the same moment do not all come back at the same moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

__all__ = ["Backoff", "pause"]

_MAX_RETRY_AFTER = 300.0  # a server may ask for a pause, not for silence


def pause(failures: int, base: float, cap: float, rng: random.Random, *, least: float = 0.0) -> float:
    """Return the seconds to wait after so many failures in a row.

    Args:
        failures: at least 1.
        base: bound after the first failure, in seconds.
        cap: limit of the bound, in seconds.
        rng: source of jitter.
        least: share of the bound that is always waited.
    """
    bound = min(cap, base * 2.0 ** min(failures - 1, 32))
    return rng.uniform(least * bound, bound)


class Backoff:
    """Delays that grow with each failure in a row.

    Args:
        rng: source of jitter.
        base: bound of the first delay, in seconds.
        cap: bound of every delay, in seconds; a Retry-After may ask for more, up to five minutes.
    """

    def __init__(self, rng: random.Random, *, base: float = 0.25, cap: float = 30.0) -> None:
        self._rng = rng
        self._base = base
        self._cap = cap
        self.failures = 0

    def reset(self) -> None:
        """Start over: contact is good again."""
        self.failures = 0

    def delay(self, retry_after: float | None = None) -> float:
        """Count one failure and return seconds to wait.

        Args:
            retry_after: seconds that the server asked for; waited in full, with jitter on top.
        """
        self.failures += 1
        asked = min(retry_after or 0.0, _MAX_RETRY_AFTER)
        return asked + pause(self.failures, self._base, self._cap, self._rng)
