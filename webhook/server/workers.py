"""Workers: threads for work that may take long, ended when nobody waits for it any more.

Work that its caller has given up is told to end again and again until it has (`muster.webhook.admission.threads`). A
thread that goes on counts as stray, and with too many of them no new work is begun.

The event loop and these threads share the interpreter's lock: a busy thread gives it up after each switch interval, so
the loop goes on beside it, a few milliseconds later at most.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from muster.webhook.admission import threads

__all__ = ["AT_ONCE", "MOST_STRAY", "CrowdedError", "Place", "Workers"]

AT_ONCE = 3
"""Pieces of work at the same time; it also bounds how many large documents are in memory."""
MOST_STRAY = 4
"""Threads that were told to end and have not; with so many, no work is begun."""
_TOLD_AGAIN = 0.02
_Result = TypeVar("_Result")


class CrowdedError(RuntimeError):
    """Too many threads that were given up are still running."""


class Workers:
    """Places for work on threads.

    Args:
        at_once: pieces of work at the same time; further ones wait.
        most_stray: threads that may be over their time before no work is begun.
    """

    def __init__(self, at_once: int = AT_ONCE, most_stray: int = MOST_STRAY) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most_stray = most_stray
        self._chases: set[asyncio.Task[None]] = set()

    @property
    def strays(self) -> int:
        """Threads that were told to end and have not."""
        return len(self._chases)

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """Wait for a place, in order; it is given back at the end of the block.

        Raises:
            CrowdedError: too many threads that were given up are still running.
        """
        self._refuse_if_crowded()
        async with self._free:
            self._refuse_if_crowded()
            yield Place(self._chase)

    def close(self) -> None:
        """Stop waiting for threads; none of them keeps the process alive."""
        for chase in self._chases:
            chase.cancel()

    def _refuse_if_crowded(self) -> None:
        if self.strays >= self._most_stray:
            raise CrowdedError(f"{self.strays} earlier evaluations are still running after their deadline")

    def _chase(self, thread: _Thread) -> None:
        task = asyncio.create_task(thread.end(), name="end of an evaluation")
        self._chases.add(task)
        task.add_done_callback(self._chases.discard)


class Place:
    """The right to do one thing after another on a thread."""

    def __init__(self, chase: Callable[[_Thread], None]) -> None:
        self._chase = chase

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Return what `work` returns, or raise what it raises; when this call is cancelled, the thread is ended.

        Raises:
            Exception: whatever `work` raises; SystemExit, KeyboardInterrupt and the like as a RuntimeError.
        """
        thread = _Thread(work, asyncio.get_running_loop())
        thread.start()
        try:
            result: _Result = await thread.done
        except asyncio.CancelledError:
            self._chase(thread)
            raise
        return result


class _Thread:
    """One piece of work on a thread of its own."""

    def __init__(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._work = work
        self._loop = loop
        self._thread = threads.Ended(self._do, "evaluation")
        self.done: asyncio.Future[Any] = loop.create_future()

    def start(self) -> None:
        self._thread.start()

    async def end(self) -> None:
        """Tell the thread to end until it has."""
        while self._thread.tell():  # noqa: ASYNC110  # a thread may catch what ends it
            await asyncio.sleep(_TOLD_AGAIN)

    def _do(self) -> None:
        try:
            result = self._work()
        except threads.GivenUpError:
            return
        except Exception as error:  # noqa: BLE001  # handed to who waits
            self._tell(_fail, error)
        except BaseException as error:  # noqa: BLE001  # nothing that is raised here may end the service
            self._tell(_fail, RuntimeError(f"it raised {type(error).__name__}"))
        else:
            self._tell(_succeed, result)

    def _tell(self, how: Callable[[asyncio.Future[Any], Any], None], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the service has stopped
            self._loop.call_soon_threadsafe(how, self.done, what)


def _succeed(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
