"""The times of a lease: how long others have waited in a turn, and what is late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.sessions.devices.lease import Action, Event, Late, Lease, Phase, TurnOver, told

__all__ = ["Driver", "Times"]


@dataclass(frozen=True, slots=True)
class Times:
    """How long things may last, in seconds; all above 0.

    Attributes:
        turn: of one session, while others wait.
        idle: without work, while another session waits: its client is about to ask again.
        leaving: from the moment a holder is asked to leave until it is ended, and as long may an engine take to join an
            agent that was started again.
        freeing: until those who still have memory are ended, again and again.
    """

    turn: float = 40.0
    idle: float = 0.05
    leaving: float = 60.0
    freeing: float = 10.0


class Driver:
    """Tells a lease what happens, and what is late; whoever has a clock calls it.

    Args:
        times: how long things may last.
        now: seconds of a clock that never goes back.
        missing: engines of a former agent that live.

    Attributes:
        lease: the state at the moment.
    """

    def __init__(self, times: Times, now: float, missing: frozenset[str] = frozenset()) -> None:
        self.lease = Lease(missing=missing, quantum=times.turn)
        self._times = times
        self._entered = now  # when the phase began, or was last told to be late
        self._looked = now
        self._paid = 0.0  # seconds of this turn for which another session waited
        self._waited = 0.0  # seconds of this turn for which any engine waited

    def tell(self, event: Event, now: float) -> Sequence[Action]:
        """Tell the lease what happened, and return what is to be done."""
        self._count(now)
        before = self.lease
        self.lease, actions = told(before, event, self._paid)
        if self.lease.turn != before.turn:
            self._paid = self._waited = 0.0
        if (self.lease.phase, self.lease.number) != (before.phase, before.number) or isinstance(event, Late):
            self._entered = now
        return actions

    def late(self, now: float) -> Event | None:
        """Return what is late by now; None for nothing."""
        self._count(now)
        lease = self.lease
        if self._ends() <= now:
            return TurnOver(lease.turn)
        return Late(lease.phase, lease.number) if self._lasts() <= now else None

    def next(self) -> float:
        """Return when `late` will have something to say, if nothing else happens before; infinity for never."""
        return min(self._ends(), self._lasts())

    def _ends(self) -> float:
        """Return when the turn is over."""
        lease = self.lease
        if lease.over or not lease.waiting or lease.phase not in {Phase.WORKING, Phase.IDLE}:
            return float("inf")
        return self._looked + self._times.turn - self._waited

    def _lasts(self) -> float:
        """Return when the phase is late."""
        times = self._times
        match self.lease.phase:
            case Phase.IDLE if self.lease.contested:
                return self._entered + times.idle
            case Phase.RECOVERING | Phase.LEAVING:
                return self._entered + times.leaving
            case Phase.VERIFYING:
                return self._entered + times.freeing
        return float("inf")

    def _count(self, now: float) -> None:
        passed, self._looked = now - self._looked, now
        self._paid += passed * self.lease.contested
        self._waited += passed * bool(self.lease.waiting)
