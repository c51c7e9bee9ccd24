"""A lease of a sampler: one trainer holds it by telling it again and again that it lives."""

from __future__ import annotations

import time
from collections.abc import Callable

from muster_weights.refusals import Refused

__all__ = ["LONGEST", "Lease"]

LONGEST = 3600.0
"""Seconds that a trainer may ask for."""


class Lease:
    """Which run holds a sampler, and until when.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = 0.0
        self.run: str | None = None

    @property
    def left(self) -> float:
        """Seconds until the lease ends; 0 where nobody holds it."""
        return max(0.0, self._end - self._clock()) if self.run is not None else 0.0

    def renew(self, run: str, seconds: float) -> None:
        """Give the lease to a run for this long. Raises `Refused` while another one holds it."""
        if not 1 <= seconds <= LONGEST:
            raise Refused(f"seconds: {seconds} is not a time of a lease: pass 1 to {LONGEST:.0f}")
        self.held_by(run)
        self.run, self._end = run, self._clock() + seconds

    def held_by(self, run: str) -> None:
        """Raise `Refused` while a run other than this one holds the lease."""
        if self.left > 0 and self.run != run:
            raise Refused(
                f"{run}: {self.run} holds this sampler for {self.left:.0f} s more: start one trainer for each"
            )

    def release(self, run: str) -> bool:
        """Give the lease back, and say whether this run held it."""
        held = self.run == run
        if held:
            self.run = None
        return held
