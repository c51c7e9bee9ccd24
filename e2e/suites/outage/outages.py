"""Takes Muster down, and measures how the cluster recovers."""

from __future__ import annotations

import time
from collections.abc import Callable

from e2e.suites.support.installations import Installation
from e2e.suites.support.waits import within

__all__ = ["Say", "die", "seconds_until"]

Say = Callable[[str], None]
"""Prints a figure."""


def die(muster: Installation) -> None:
    """Kill Muster, and keep its Deployment from starting it again."""
    muster.kill(for_good=True)


def seconds_until(what: str, check: Callable[[], object], limit: float) -> float:
    """Return how long it took until `check` was truthy.

    Raises:
        AssertionError: longer than `limit` seconds.
    """
    started = time.monotonic()
    within(what, check, limit)
    return time.monotonic() - started
