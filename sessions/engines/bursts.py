"""The thread of an engine that takes turns on its device: what it is asked for runs while it holds that, in bursts."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.sessions.devices.client import Turn
from muster.sessions.devices.lines import Join
from muster.sessions.seam import Movable

__all__ = ["Bursts", "kept"]

_LOG = logging.getLogger(__name__)
_WEIGHTS = ("*.safetensors", "*.bin")


@dataclass(slots=True)
class _Work:
    answer: Future[Any]
    do: Callable[[], Any]


class Bursts(Executor):
    """Runs work on one thread, in its order, while the device is held.

    The device is kept until all that waits is done, or until the agent asks for it; then the engines leave between two
    pieces of work.

    Args:
        socket: of the agent of the device.
        join: what this engine is.

    Attributes:
        engines: that leave and come back; those that are made by the first work are added then.
        more: tells that work is about to follow, so that the burst is not over.

    Raises:
        ValueError: where the agent refuses it.
    """

    def __init__(self, socket: Path, join: Join) -> None:
        self.engines: Sequence[Movable] = ()
        self.more: Callable[[], bool] = lambda: False
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._turn = Turn(socket, join, self._enter, self._leave, lambda: self._work.put(None))
        threading.Thread(target=self._run, daemon=True, name="engine").start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Run a function in its turn."""
        work = _Work(Future(), lambda: fn(*args, **named))
        self._work.put(work)
        return work.answer

    def _run(self) -> None:
        try:
            while True:
                self._do(self._work.get())
        except ValueError:
            _LOG.critical("the device is no longer to be had, so this process ends", exc_info=True)
        except Exception:  # noqa: BLE001  # whatever it is, half of the memory may have moved
            _LOG.critical("the memory of this engine cannot be moved, so this process ends", exc_info=True)
        os._exit(1)

    def _do(self, work: _Work | None) -> None:
        if work is not None and work.answer.set_running_or_notify_cancel():
            self._turn.hold()
            _answer(work)
        if self._turn.is_to_leave:
            self._turn.leave()
        elif self._turn.is_lost:
            self._turn.come()
        elif self._work.empty() and not self.more():
            self._turn.done()

    def _enter(self) -> None:
        for each in self.engines:
            each.back()

    def _leave(self) -> None:
        for each in self.engines:
            each.away()


def _answer(work: _Work) -> None:
    try:
        answer = work.do()
    except BaseException as error:  # noqa: BLE001  # whoever asked gets it, also the end of the process
        work.answer.set_exception(error)
    else:
        work.answer.set_result(answer)


def kept(base: Path) -> int:
    """Return the bytes that an engine keeps in host memory while it is away: those of its base model."""
    return sum(each.stat().st_size for pattern in _WEIGHTS for each in base.glob(pattern))
