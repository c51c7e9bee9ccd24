"""Validity windows, and the rule by which certificates are renewed.

Certificates of webhooks mostly fail because they expire: the classic outage is a CA that expires before its leaf and
that nothing monitors. So CA and leaf each have a window and a metric of the remaining seconds, and each is renewed at
two thirds of its life. All times are aware and in UTC; callers always pass `now`.
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
    """The period in which a certificate is valid, both ends included (RFC 5280, 4.1.2.5)."""

    not_before: datetime
    not_after: datetime

    def covers(self, now: datetime) -> bool:
        """Whether a certificate with this window is valid at `now`."""
        return self.not_before <= now <= self.not_after

    def remaining(self, now: datetime) -> float:
        """Seconds until the end; negative once it is past."""
        return (self.not_after - now).total_seconds()

    def due(self, now: datetime) -> bool:
        """Whether two thirds of the window have passed, so that a successor should be made."""
        return now >= self.not_before + (self.not_after - self.not_before) * RENEWAL_SHARE

    def clipped(self, outer: Window) -> Window:
        """The part of the window inside `outer`: a leaf must not outlive the CA that signs it."""
        return Window(max(self.not_before, outer.not_before), min(self.not_after, outer.not_after))


def utc_now() -> datetime:
    """The default clock."""
    return datetime.now(UTC)


def opening(now: datetime, validity: timedelta, *, backdating: timedelta = BACKDATING) -> Window:
    """A window for a certificate made at `now`, backdated, in the whole seconds that X.509 can express."""
    whole = now.replace(microsecond=0)
    return Window((whole - backdating).replace(microsecond=0), whole + validity)
