"""How much each session had of a device, and who is next.

A session has a *tag*: the seconds that it had while others waited, divided by its weight. The least tag is next. One
that comes back starts at the tag of the last one that got a turn, so that it saves nothing up while it asks for nothing
(start-time fair queueing, Goyal, Vin and Cheng 1996). A new one pays its first turn in advance, so that no stream of
new ones passes those who wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Shares"]


@dataclass(frozen=True, slots=True)
class Shares:
    """Tags of the sessions on a device.

    Attributes:
        tags: by session.
        floor: the tag of the last one that got a turn; it never sinks.
    """

    tags: tuple[tuple[str, float], ...] = ()
    floor: float = 0.0

    def joined(self, session: str, seconds: float) -> Shares:
        """Add a session; nothing happens when it is there.

        Args:
            session: that is new.
            seconds: of its first turn, divided by its weight; at least 0.
        """
        return self._with({session: self.floor + seconds} | dict(self.tags))

    def left(self, session: str) -> Shares:
        """Forget a session."""
        return self._with({each: tag for each, tag in self.tags if each != session})

    def asked(self, session: str) -> Shares:
        """Have a session wait that did not."""
        tags = dict(self.tags)
        return self._with(tags | {session: max(self.floor, tags[session])})

    def charged(self, session: str, seconds: float) -> Shares:
        """Charge a session for its turn; one that has gone pays nothing.

        Args:
            session: whose turn it was.
            seconds: for which others waited, divided by its weight; at least 0.
        """
        return self._with({each: tag + seconds if each == session else tag for each, tag in self.tags})

    def served(self, session: str) -> Shares:
        """Begin the turn of a session that waits."""
        return Shares(self.tags, max(self.floor, dict(self.tags)[session]))

    def next(self, sessions: Iterable[str]) -> str:
        """Return whose turn is next; of those with the same tag, the first."""
        return min(sessions, key=dict(self.tags).__getitem__)

    def _with(self, tags: dict[str, float]) -> Shares:
        return Shares(tuple(sorted(tags.items())), self.floor)
