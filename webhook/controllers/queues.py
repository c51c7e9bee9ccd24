"""A work queue: each key waits at most once, is worked on by one worker at a time, and is tried again later on failure.

As in client-go, a key that is added while it is worked on comes again afterwards. There is one key for each claim or
namespace in use, so a burst of events costs one entry for each key, not one for each event.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Hashable
from typing import Generic, TypeVar

from muster.webhook import backoffs

__all__ = ["WorkQueue"]

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """Keys that wait for work.

    Args:
        rng: the source of jitter.
        base, cap: bounds of the first pause after a failure and of every pause, in seconds.
    """

    def __init__(self, rng: random.Random, *, base: float = 0.05, cap: float = 30.0) -> None:
        self._rng = rng
        self._base, self._cap = base, cap
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()  # in `_ready`
        self._working: set[Key] = set()
        self._again: set[Key] = set()  # added while being worked on
        self._backoffs: dict[Key, backoffs.Backoff] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """Return how many keys wait, including those that wait for a time."""
        return len(self._waiting | self._again | self._timers.keys())

    def add(self, key: Key) -> None:
        """Queue a key for the next free worker; it may be queued already."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Queue a key after some seconds; the earlier of two times counts."""
        loop = asyncio.get_running_loop()
        present = self._timers.get(key)
        if present is not None:
            if present.when() <= loop.time() + seconds:
                return
            present.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    async def take(self) -> Key:
        """Wait for a key and return it; the caller must then call `done` or `failed`."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: Key) -> None:
        """Record that the work on a key has succeeded."""
        self._backoffs.pop(key, None)
        self._put_back(key)

    def failed(self, key: Key) -> float:
        """Record that the work on a key has failed; return the seconds after which it comes again."""
        backoff = self._backoffs.setdefault(key, backoffs.Backoff(self._rng, base=self._base, cap=self._cap))
        pause = backoff.delay()
        self._again.discard(key)
        self._working.discard(key)
        self.add_after(key, pause)
        return pause

    def close(self) -> None:
        """Drop the keys that wait for a time."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _put_back(self, key: Key) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
