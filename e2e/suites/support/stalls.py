"""Detects stalls of the machine: a thread sleeps for short times, and records when one took seconds.

Requests under way then time out everywhere, which says nothing about the API server or Muster.
"""

from __future__ import annotations

import threading
import time

__all__ = ["lost", "overlap"]

_LEAST = 1.0  # seconds
_AFTER = 5.0  # for which what waited is still being caught up with
_stalls: list[tuple[float, float]] = []


def overlap(begun: float, ended: float) -> bool:
    """Whether the machine stood still between two moments of `time.monotonic`, or shortly before."""
    return any(first <= ended and begun <= last + _AFTER for first, last in _noted())


def lost(begun: float) -> float:
    """Return the seconds for which it stood still since a moment of `time.monotonic`."""
    return sum(last - max(first, begun) for first, last in _noted() if last > begun)


def _noted() -> list[tuple[float, float]]:
    return list(_stalls)


def _watch() -> None:
    before = time.monotonic()
    while True:
        time.sleep(0.1)
        now = time.monotonic()
        if now - before > _LEAST:
            _stalls.append((before, now))
        before = now


threading.Thread(target=_watch, name="stalls", daemon=True).start()
