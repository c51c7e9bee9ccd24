"""Futures: who waits for a request is woken when it ends."""

from __future__ import annotations

import asyncio
from collections import defaultdict

__all__ = ["Futures"]


class Futures:
    """Waits for ends that are in the journal, whichever Gateway put them there."""

    def __init__(self) -> None:
        self._events: defaultdict[str, list[asyncio.Event]] = defaultdict(list)

    def ended(self, id_: str) -> None:
        """Wake whoever waits for a request, or for any request of its target."""
        for each in (id_, id_.rpartition(":")[0]):  # the request, and whoever waits for any of its target
            for event in self._events.pop(each, ()):
                event.set()

    def all(self) -> None:
        """Wake everybody, because an end may have been missed."""
        for id_ in list(self._events):
            self.ended(id_)

    def watch(self, id_: str) -> asyncio.Event:
        """Return what will be set; look into the journal after this, or an end may be missed."""
        event = asyncio.Event()
        self._events[id_].append(event)
        return event

    def leave(self, id_: str, event: asyncio.Event) -> None:
        """Stop watching."""
        if id_ in self._events:
            self._events[id_] = [each for each in self._events[id_] if each is not event]
            if not self._events[id_]:
                del self._events[id_]
