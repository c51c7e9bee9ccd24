"""How long to wait before trying again.

Full jitter: each delay is uniform between zero and a bound that doubles, so that replicas which lost one API server at
one moment do not come back at one moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

__all__ = ["Backoff"]

_MAX_RETRY_AFTER = 300.0  # a server may ask for patience, not for silence


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
        bound = min(self._cap, self._base * 2.0 ** min(self.failures, 32))
        self.failures += 1
        asked = min(retry_after or 0.0, _MAX_RETRY_AFTER)
        return asked + self._rng.uniform(0.0, bound)
