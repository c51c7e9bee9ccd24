"""Prompts on their way through a sampler: which weights are loaded for them, who has begun, who waits."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from sessions.engines.tickets import Batchwise
from sessions.seam import BrokenError, Continuous, Refused, Sampled, Sampler, Sampling

__all__ = ["Desk"]

_LOG = logging.getLogger(__name__)
_STEPS = 16  # of a sampler between looks whether somebody has gone

Work = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Prompt:
    request: Sampling
    folder: str | None
    gone: Callable[[], bool]
    answer: asyncio.Future[Sampled]


class Desk:
    """Gives a sampler what it is asked for as it comes, on the one thread that may use it.

    Args:
        sampler: one that is not `Continuous` gets batches of what waits.
        work: runs a function on the thread of the engine.
    """

    def __init__(self, sampler: Sampler, work: Work) -> None:
        self._sampler: Continuous = sampler if isinstance(sampler, Continuous) else Batchwise(sampler)
        self._work = work
        self._waiting: deque[_Prompt] = deque()
        self._running: dict[int, _Prompt] = {}
        self._loaded: dict[str, None] = {}  # the last used at the end
        self._tickets = count()
        self._arrived = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        """Whether a prompt waits or is being answered."""
        return bool(self._waiting or self._running)

    async def ask(self, request: Sampling, folder: Path | None, gone: Callable[[], bool]) -> Sampled:
        """Return the answer to a prompt.

        Args:
            request: what is asked.
            folder: of its weights; None is the base.
            gone: tells that nobody waits for the answer any more; asked on another thread.

        Raises:
            Refused: for what cannot be answered.
            Exception: for a fault of the sampler.
        """
        answer: asyncio.Future[Sampled] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Prompt(request, str(folder) if folder else None, gone, answer))
        self._arrived.set()
        return await answer

    async def run(self) -> None:
        """Answer for ever. Raises `BrokenError` when the sampler can no more."""
        while True:
            if not self._waiting and not self._running:
                await self._arrived.wait()
            self._arrived.clear()
            for prompt, answer in await self._work(self._turn):
                _settle(prompt.answer, answer)

    def _turn(self) -> list[tuple[_Prompt, Sampled | Exception]]:
        """Begin what can begin, and go on until something has ended or something new waits."""
        answers = [*self._let_go(), *self._begun()]
        for _ in range(_STEPS if self._running else 0):
            if answers or self._arrived.is_set():
                break
            answers = self._step()
        return answers

    def _let_go(self) -> Iterator[tuple[_Prompt, Sampled | Exception]]:
        for ticket in [ticket for ticket, prompt in self._running.items() if prompt.gone()]:
            self._sampler.abandon(ticket)
            yield self._running.pop(ticket), _gone()

    def _begun(self) -> Iterator[tuple[_Prompt, Sampled | Exception]]:
        """Have what waits begin, in its order, and give what fails at that."""
        while self._waiting:
            prompt = self._waiting[0]
            try:
                if not self._has_begun(prompt):
                    return
            except BrokenError:
                raise
            except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
                yield prompt, error
            self._waiting.popleft()

    def _has_begun(self, prompt: _Prompt) -> bool:
        if prompt.gone():
            raise _gone()
        if prompt.folder is not None and not self._has_loaded(prompt.folder):
            return False
        ticket = next(self._tickets)
        self._sampler.begin(ticket, prompt.request)
        self._running[ticket] = prompt
        return True

    def _step(self) -> list[tuple[_Prompt, Sampled | Exception]]:
        try:
            answers: Any = self._sampler.advance()
        except BrokenError:
            raise
        except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
            _LOG.exception("the sampler failed at %s prompts", len(self._running))
            answers = dict.fromkeys(self._running, error)
        return [(self._running.pop(ticket), answer) for ticket, answer in answers.items()]

    def _has_loaded(self, folder: str) -> bool:
        """Have weights loaded; those least recently used go, but none of a prompt that has begun. False: later."""
        if folder not in self._loaded:
            used = Counter(prompt.folder for prompt in self._running.values())
            idle = [each for each in self._loaded if not used[each]]
            surplus = len(self._loaded) + 1 - self._sampler.slots
            if surplus > len(idle):
                return False
            for old in idle[: max(0, surplus)]:
                self._sampler.unload(old)
                del self._loaded[old]
            self._sampler.load(folder, Path(folder))
        self._loaded.pop(folder, None)
        self._loaded[folder] = None
        return True


def _gone() -> Refused:
    return Refused("nobody waits for this sample any more: ask again")


def _settle(future: asyncio.Future[Sampled], answer: Sampled | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
