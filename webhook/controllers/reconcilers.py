"""Workers that take keys from a queue, do the work of each, and try it again when it failed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from muster.kube import transports
from muster.webhook.cluster import writes
from muster.webhook.controllers import queues

__all__ = ["Loop"]

Key = TypeVar("Key", bound=Hashable)

_logger = logging.getLogger(__name__)


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
        self.queue: queues.WorkQueue[Key] = queues.WorkQueue(rng)
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
