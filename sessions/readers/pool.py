"""Who reads large bodies: a few processes, for which tenants take turns.

A parser holds the interpreter's lock until it is done, so a thread would have everybody wait as the event loop has.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

import orjson

from muster.sessions.readers import frames
from muster.sessions.refusals import Refused

__all__ = ["LARGE", "CrowdedError", "Reader", "Readers", "named"]

P = ParamSpec("P")
T = TypeVar("T")
LARGE = 16 << 10
"""Bytes of the largest body that is read at once, in the loop: the worst take 15 ms there, and a process some 0.5."""
_ALL = 8192  # bodies of all tenants that are read or wait
_SECONDS = 60.0  # until a process that says nothing is ended
_ENDS = frozenset({-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS})
_TOLD = "the body ends the process that reads it, for its memory or its time; send less in one request"


class CrowdedError(Exception):
    """As many bodies wait to be read as may.

    Attributes:
        is_own: whether of one tenant; otherwise of all together.
    """

    def __init__(self, told: str, *, is_own: bool) -> None:
        super().__init__(told)
        self.is_own = is_own


def named(reads: Callable[..., object]) -> str:
    """Return the name of a function or a form of a module, as a process knows it."""
    return f"{reads.__module__}:{reads.__qualname__}"


class Reader:
    """One process; it is started when it is needed, and again when it has ended. Its methods are for one thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False  # whether it was killed

    def ask(self, task: str, data: bytes) -> bytes:
        """Return what a task, `MODULE:NAME`, tells of a body, as JSON.

        Raises:
            Refused: by the task, or because the process does not survive the body.
            RuntimeError: when the task failed.
        """
        self._is_over = False
        answer = self._asked(task, data)
        # By SIGKILL it may have ended by chance, and with 0 after the body before.
        if answer is None and self._ended() not in _ENDS and not self._is_over:
            answer = self._asked(task, data)
        if answer is None:
            self._ended()
            raise Refused(_TOLD)
        kind, told = answer
        if kind == frames.REFUSED:
            raise Refused(told.decode())
        if kind != frames.TOLD:
            raise RuntimeError(f"a body could not be read: {told.decode()}")
        return told

    def kill(self) -> None:
        """End the process, from any thread; who waits for it goes on."""
        self._is_over = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """End the process, and wait for its end."""
        self.kill()
        self._ended()

    def _asked(self, task: str, data: bytes) -> tuple[bytes, bytes] | None:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "muster.sessions.readers.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("a process was started without pipes")
        try:
            frames.send(self._process.stdin, task.encode(), data)
            return frames.receive(self._process.stdout)
        except OSError:
            return None

    def _ended(self) -> int | None:
        """Have no process any more, and return how it ended."""
        process, self._process = self._process, None
        if process is None:
            return None
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # what was not sent
                if pipe is not None:
                    pipe.close()
        return process.wait()


class _Slot:
    """A process, and the thread that waits for it."""

    def __init__(self) -> None:
        self.reader = Reader()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="reader")


class Readers:
    """Reads bodies in processes, and unpacks them in threads; tenants take turns.

    Args:
        most: returns how many bodies of a tenant may be read or wait.
        processes: as many as are read at the same time.
    """

    def __init__(self, most: Callable[[str], int], processes: int = 2) -> None:
        self._most = most
        self._slots = [_Slot() for _ in range(processes)]
        self._idle = list(self._slots)
        self._waiting: OrderedDict[str, deque[asyncio.Future[_Slot]]] = OrderedDict()
        self._counts: Counter[str] = Counter()

    async def asked(self, of: str, reads: Callable[[bytes], T], data: bytes) -> T:
        """Return what a function of a module tells of a body that was accepted, however many wait.

        Args:
            of: what takes turns with the tenants.
            reads: the function; what it returns is as JSON has it.
            data: the body.
        """
        if len(data) <= LARGE:
            return reads(data)
        made: T = orjson.loads(await self._asked(of, math.inf, reads, data))
        return made

    async def told(self, tenant: str, reads: Callable[..., object], data: bytes) -> bytes:
        """Return what a function, or a form, of a module tells of a body, as JSON.

        Raises:
            Refused: by what reads it, or because no process survives the body.
            CrowdedError: when as many of the tenant's wait as may, or as many of all.
        """
        return await self._asked(tenant, self._most(tenant), reads, data)

    async def _asked(self, tenant: str, most: float, reads: Callable[..., object], data: bytes) -> bytes:
        slot = await self._slot(tenant, most)
        timer = asyncio.get_running_loop().call_later(_SECONDS, slot.reader.kill)
        return await self._done(tenant, slot, lambda: slot.reader.ask(named(reads), data), timer.cancel)

    async def beside(self, tenant: str, does: Callable[P, T], *args: P.args, **named_: P.kwargs) -> T:
        """Return what a function returns that lets go of the interpreter's lock; it has its turn as a body has."""
        slot = await self._slot(tenant, self._most(tenant))
        return await self._done(tenant, slot, lambda: does(*args, **named_))

    async def close(self) -> None:
        """End the processes."""
        for slot in self._slots:
            slot.reader.kill()
            await asyncio.get_running_loop().run_in_executor(slot.thread, slot.reader.close)
            slot.thread.shutdown()

    async def _slot(self, tenant: str, most: float) -> _Slot:
        if self._counts[tenant] >= most:
            told = f"reading_bodies: {most} of your large bodies wait to be read, as many as may"
            raise CrowdedError(told, is_own=True)
        if self._counts.total() >= _ALL and most < math.inf:
            raise CrowdedError("too many large bodies wait to be read at the moment", is_own=False)
        self._counts[tenant] += 1
        try:
            return self._idle.pop() if self._idle else await self._turn(tenant)
        except BaseException:
            self._uncount(tenant)
            raise

    async def _done(self, tenant: str, slot: _Slot, does: Callable[[], T], *ends: Callable[[], None]) -> T:
        work = asyncio.get_running_loop().run_in_executor(slot.thread, does)

        def over(_: asyncio.Future[T]) -> None:
            for each in ends:
                each()
            self._uncount(tenant)
            self._free(slot)

        # Who is cancelled ends no work: its process is nobody else's until it is done.
        work.add_done_callback(over)
        return await asyncio.shield(work)

    def _uncount(self, tenant: str) -> None:
        self._counts[tenant] -= 1
        if not self._counts[tenant]:
            del self._counts[tenant]

    async def _turn(self, tenant: str) -> _Slot:
        turn: asyncio.Future[_Slot] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free(turn.result())
            raise

    def _free(self, slot: _Slot) -> None:
        """Give a process to the tenant whose turn it is."""
        while self._waiting:
            tenant, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if not turns:
                del self._waiting[tenant]
            if turn.done():  # it was cancelled
                continue
            if turns:
                self._waiting.move_to_end(tenant)
            turn.set_result(slot)
            return
        self._idle.append(slot)
