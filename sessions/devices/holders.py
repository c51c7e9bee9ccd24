"""Who has a device, since when, and how often that changed; counted where the lease is driven."""

from __future__ import annotations

from collections import Counter

from muster.sessions.devices.lease import Lease

__all__ = ["Holders"]


class Holders:
    """What people want to know of a lease beside its state.

    Attributes:
        since: when the engine that has memory on the device got it, in seconds since 1970; None while there is none.
        changes: how often another engine than the one before got the device.
        turns: how many each session had that has engines; a turn is what a session has between two others.
    """

    def __init__(self) -> None:
        self._last = ""
        self.since: float | None = None
        self.changes = 0
        self.turns: Counter[str] = Counter()

    def count(self, before: Lease, after: Lease, clock: float) -> None:
        """Count one step of the lease.

        Args:
            before: the state until now.
            after: the next one.
            clock: seconds since 1970.
        """
        engine = after.resident
        if engine != before.resident:
            self.since = clock if engine else None
        if engine and engine.name != self._last:
            self.changes += bool(self._last)
            self._last = engine.name
        if after.turn != before.turn:
            self.turns[after.session] += 1
        if after.engines != before.engines:
            there = {each.session for each in after.engines}
            self.turns = Counter({session: turns for session, turns in self.turns.items() if session in there})
