"""How long to wait before trying again: one rule for the service, the audit log and the Gateway.

The bound of a pause doubles with each failure in a row. Callers of the API server use full jitter, any part of the
bound, so that replicas that lost the API server at the same moment do not all come back at the same moment.
"""

from __future__ import annotations

import random

__all__ = ["Backoff"]

_MAX_RETRY_AFTER = 300.0  # a server may ask for a pause, not for silence


class Backoff:
    """Delays that grow with each failure in a row.

    Args:
        rng: source of jitter; one of its own by default.
        base: bound of the first delay, in seconds.
        cap: bound of every delay, in seconds; a Retry-After may ask for more, up to five minutes.
        least: share of the bound that is always waited.
    """

    def __init__(
        self, rng: random.Random | None = None, *, base: float = 0.25, cap: float = 30.0, least: float = 0.0
    ) -> None:
        self._rng = rng or random.SystemRandom()
        self._base = base
        self._cap = cap
        self._least = least
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
        bound = min(self._cap, self._base * 2.0 ** min(self.failures - 1, 32))
        return min(retry_after or 0.0, _MAX_RETRY_AFTER) + self._rng.uniform(self._least * bound, bound)
