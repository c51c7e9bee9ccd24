"""Validity windows and the one rule by which things are renewed.

Certificates of webhooks mostly fail by time: a CA that runs out before its leaf, with nothing that watches it, is
the classic outage. So CA and leaf are each described by a window, each has its own remaining seconds for a metric,
and each is due at two thirds of its life. All times are aware and in UTC; `now` is always handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

__all__ = ["BACKDATING", "Clock", "Window", "opening", "utc_now"]

Clock = Callable[[], datetime]

BACKDATING = timedelta(minutes=5)
"""How far a window begins in the past, so that a client whose clock is behind accepts it."""

RENEWAL_SHARE = 2 / 3


@dataclass(frozen=True, slots=True)
class Window:
    """From when until when a certificate is valid, both ends included (RFC 5280, 4.1.2.5)."""

    not_before: datetime
    not_after: datetime

    def covers(self, now: datetime) -> bool:
        """Whether a certificate with this window is valid at `now`."""
        return self.not_before <= now <= self.not_after

    def remaining(self, now: datetime) -> float:
        """Seconds until the end; negative once it is past."""
        return (self.not_after - now).total_seconds()

    def due(self, now: datetime) -> bool:
        """Whether two thirds have gone by, so that a successor should be made."""
        return now >= self.not_before + (self.not_after - self.not_before) * RENEWAL_SHARE

    def clipped(self, outer: Window) -> Window:
        """The part inside `outer`: a leaf must not outlive the CA that signs it."""
        return Window(max(self.not_before, outer.not_before), min(self.not_after, outer.not_after))


def utc_now() -> datetime:
    """The default clock."""
    return datetime.now(UTC)


def opening(now: datetime, validity: timedelta, *, backdating: timedelta = BACKDATING) -> Window:
    """A window for a certificate made at `now`, backdated, in the whole seconds that X.509 can express."""
    whole = now.replace(microsecond=0)
    return Window((whole - backdating).replace(microsecond=0), whole + validity)
