"""Forks: work in a process of its own, which ends with the work or is killed when nobody waits for it any more.

A child of fork() has the caches, the policy and the plugins as they are, so nothing is sent to it, and it takes 6 MiB,
where a process that is kept for such work takes 51 (docs/internals/decisions/0053). It closes the sockets of the
parent, which would stay open as long as it lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from muster.webhook.server.turns import Author, Turns

__all__ = ["AT_ONCE", "MEMORY", "ForkError", "Forks"]

AT_ONCE = 3
"""Children at the same time; it also bounds how many large documents are in memory."""
MEMORY = 64 * 1024**2
"""Bytes that a child may take: all of them, beside a service with full caches, fit the limit of the chart's pod."""
_STREAMS = (0, 1, 2)
_SECONDS = 30  # of processor time, if the parent is killed
_log = logging.getLogger(__name__)


class ForkError(RuntimeError):
    """A child ended without an answer."""


class Forks:
    """Children for work that may take long.

    Args:
        at_once: children at the same time; further work waits, and its authors take turns.
        memory: bytes that a child may take beyond those of this process.
    """

    def __init__(self, at_once: int = AT_ONCE, memory: int = MEMORY) -> None:
        self._turns = Turns(at_once)
        self._memory = memory

    async def run(self, work: Callable[[], bytes], author: Author) -> bytes:
        """Return what `work` returns in a child; when this call is cancelled, the child is killed.

        Args:
            work: what is to be done.
            author: whose turn it needs.

        Raises:
            ForkError: the work raised, or ended its process.
            OSError: there is no room for another process.
        """
        async with self._turns.turn(author):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                child = os.fork()
                if child == 0:
                    _work(work, theirs.fileno(), self._memory)
                theirs.close()
                try:
                    answer = await _whole(ours)
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)  # noqa: ASYNC222  # it has been killed
        if not answer:
            raise ForkError("the process of this evaluation ended without an answer")
        return answer


async def _whole(ours: socket.socket) -> bytes:
    ours.setblocking(False)
    loop, parts = asyncio.get_running_loop(), []
    while part := await loop.sock_recv(ours, 1 << 18):
        parts.append(part)
    return b"".join(parts)


def _work(work: Callable[[], bytes], answers: int, memory: int) -> None:
    """Be the child; nothing of the parent's ways to end runs here."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        for each in [int(path.name) for path in Path("/dev/fd").iterdir()]:
            if each not in (*_STREAMS, answers):
                with contextlib.suppress(OSError):  # the one that listed them
                    os.close(each)
        gc.disable()  # it would touch, and so copy, every page
        _limit(resource.RLIMIT_CPU, _SECONDS + int(sum(os.times()[:2])))
        _limit(resource.RLIMIT_AS, memory + _size())
        with socket.socket(fileno=answers) as answer:
            answer.sendall(work())
    except BaseException:  # noqa: BLE001  # whatever it is, the parent is told by silence
        _log.exception("an evaluation ended its process")
    finally:
        os._exit(0)


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _size() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
