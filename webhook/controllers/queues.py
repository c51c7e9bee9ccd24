"""A work queue and its workers: a key waits once, one worker at a time works on it, and after a failure it comes again.

As in client-go, a key that is added while it is worked on comes again afterwards. There is one key for each claim or
namespace in use, so a burst of events costs one entry for each key, not one for each event.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from muster import backoffs
from muster.kube import transports
from muster.webhook.cluster import writes

__all__ = ["Loop", "WorkQueue"]

_logger = logging.getLogger(__name__)

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


class Loop(Generic[Key]):
    """Some workers on one queue.

    Args:
        name: the name in the log.
        work: does the work of one key; it may be called for a key at any time, any number of times.
        rng: the source of jitter.
        workers: how many work at the same time, each on another key.
    """

    def __init__(
        self, name: str, work: Callable[[Key], Awaitable[None]], rng: random.Random, *, workers: int = 4
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(rng)
        self._name = name
        self._work = work
        self._workers = workers

    async def run(self) -> None:
        """Work until cancelled; no failure ends it."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._worker(), name=f"{self._name} {number}")
        finally:
            self.queue.close()

    async def _worker(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                await self._work(key)
            except transports.TransportError as error:
                pause = self.queue.failed(key)
                level = logging.INFO if isinstance(error, writes.ConflictError) else logging.WARNING
                extra = {"loop": self._name, "key": key, "problem": str(error), "pause": round(pause, 2)}
                _logger.log(level, "to be done again", extra=extra)
            except Exception:
                self.queue.failed(key)
                _logger.exception("defect in a controller", extra={"loop": self._name, "key": key})
            else:
                self.queue.done(key)
