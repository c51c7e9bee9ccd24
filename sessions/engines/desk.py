"""Prompts on their way through a sampler: whose turn it is, which weights are loaded for them, who has begun."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from muster.sessions.engines.tickets import Batchwise
from muster.sessions.fairness import Fair
from muster.sessions.seam import BrokenError, Continuous, Refused, Sampled, Sampler, Sampling
from muster.sessions.tenancy import Share

__all__ = ["CROWD", "Desk"]

CROWD = 32
"""Sequences of a tenant beside those of others, where a sampler says nothing else."""
_LOG = logging.getLogger(__name__)
_ALL = "\0"  # no tenant has this name
_STEPS = 16  # of a sampler between looks whether somebody has gone

Work = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Prompt:
    share: Share
    request: Sampling
    folder: str | None
    gone: Callable[[], bool]
    answer: asyncio.Future[Sampled]

    @property
    def rows(self) -> int:
        """How many sequences it has in a pass."""
        return max(1, self.request.count)

    @property
    def most(self) -> int:
        """Tokens that it is thought to cost."""
        length = len(self.request.prompt)
        return length + self.rows * (length if self.request.max_tokens is None else self.request.max_tokens)


class Desk:
    """Gives a sampler what it is asked for as it comes, on the one thread that may use it.

    Tenants take turns. Beside others each has a part of the batch, and of the places for weights, so that nobody's
    tokens take longer by how much another asks for; a tenant who is alone has all.

    Args:
        sampler: one that is not `Continuous` gets batches of what waits.
        work: runs a function on the thread of the engine.
        crowd: sequences that a tenant has in the batch beside others; one prompt of more runs by itself.
    """

    def __init__(self, sampler: Sampler, work: Work, crowd: int = CROWD) -> None:
        self._sampler: Continuous = sampler if isinstance(sampler, Continuous) else Batchwise(sampler)
        self._work, self._crowd = work, crowd
        self._waiting: Fair[_Prompt] = Fair()
        self._running: dict[int, _Prompt] = {}
        self._rows: Counter[str] = Counter()  # that run, of each tenant who has any
        self._loaded: dict[str, None] = {}  # the last used at the end
        self._tickets = count()
        self._arrived = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        """Whether a prompt waits or is being answered."""
        return bool(len(self._waiting) or self._running)

    async def ask(self, share: Share, request: Sampling, folder: Path | None, gone: Callable[[], bool]) -> Sampled:
        """Return the answer to a prompt.

        Args:
            share: whose it is.
            request: what is asked.
            folder: of its weights; None is the base.
            gone: tells that nobody waits for the answer any more; asked on another thread.

        Raises:
            Refused: for what cannot be answered.
            Exception: for a fault of the sampler.
        """
        answer: asyncio.Future[Sampled] = asyncio.get_running_loop().create_future()
        prompt = _Prompt(share, request, str(folder) if folder else None, gone, answer)
        self._waiting.put(share, prompt.folder or "", prompt)
        self._arrived.set()
        return await answer

    async def run(self) -> None:
        """Answer for ever. Raises `BrokenError` when the sampler can no more."""
        while True:
            if not self.is_busy:
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
            yield self._ended(ticket), _gone()

    def _begun(self) -> Iterator[tuple[_Prompt, Sampled | Exception]]:
        """Have what waits begin, by the turns of tenants, and give what fails at that."""
        full: set[str] = set()
        while (taken := self._waiting.take(lambda share, prompt: self._fits(share, prompt, full))) is not None:
            prompt = taken[1]
            self._waiting.spent({prompt.share.tenant: prompt.most})
            try:
                self._begin(prompt)
            except BrokenError:
                raise
            except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
                yield prompt, error

    def _begin(self, prompt: _Prompt) -> None:
        if prompt.gone():
            raise _gone()
        if prompt.folder is not None:
            self._load(prompt.folder)
        ticket = next(self._tickets)
        self._sampler.begin(ticket, prompt.request)
        self._running[ticket] = prompt
        self._rows[prompt.share.tenant] += prompt.rows

    def _ended(self, ticket: int) -> _Prompt:
        prompt = self._running.pop(ticket)
        self._rows[prompt.share.tenant] -= prompt.rows
        self._rows += Counter()  # without those who have none any more
        return prompt

    def _step(self) -> list[tuple[_Prompt, Sampled | Exception]]:
        try:
            answers: Any = self._sampler.advance()
        except BrokenError:
            raise
        except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
            _LOG.exception("the sampler failed at %s prompts", len(self._running))
            answers = dict.fromkeys(self._running, error)
        ended = [(self._ended(ticket), answer) for ticket, answer in answers.items()]
        for prompt, answer in ended:
            if isinstance(answer, Sampled):
                had = len(prompt.request.prompt) + sum(len(each.tokens) for each in answer.sequences)
                self._waiting.spent({prompt.share.tenant: had - prompt.most})
        return ended

    def _fits(self, share: Share, prompt: _Prompt, full: set[str]) -> bool:
        """Tell whether a prompt can begin, and note who has to wait: a tenant, or `_ALL` for a place for weights.

        Nobody passes a prompt of his own tenant that waits for its place, or the place would never come.
        """
        if not full.isdisjoint((share.tenant, _ALL)):
            return False
        if prompt.gone():
            return True
        if not self._is_within_part(share.tenant, prompt):
            full.add(share.tenant)
            return False
        if prompt.folder is not None and self._surplus(prompt.folder) > len(self._idle()):
            full.add(_ALL)
            return False
        return True

    def _is_within_part(self, tenant: str, prompt: _Prompt) -> bool:
        """Tell whether a tenant has no more of the sampler than his part with a prompt, or is alone."""
        rows = self._rows.get(tenant, 0)
        if not rows or (len(self._rows) == 1 and self._waiting.is_alone(tenant)):
            return True
        used = {each.folder for each in self._running.values() if each.share.tenant == tenant} | {prompt.folder}
        return rows + prompt.rows <= self._crowd and len(used - {None}) <= max(1, self._sampler.slots // 2)

    def _surplus(self, folder: str) -> int:
        """Return how many weights have to go for others."""
        return 0 if folder in self._loaded else max(0, len(self._loaded) + 1 - self._sampler.slots)

    def _idle(self) -> list[str]:
        used = {prompt.folder for prompt in self._running.values()}
        return [each for each in self._loaded if each not in used]

    def _load(self, folder: str) -> None:
        """Have weights loaded; those least recently used go, but none of a prompt that has begun."""
        for old in self._idle()[: self._surplus(folder)]:
            self._sampler.unload(old)
            del self._loaded[old]
        if folder not in self._loaded:
            self._sampler.load(folder, Path(folder))
        self._loaded.pop(folder, None)
        self._loaded[folder] = None


def _gone() -> Refused:
    return Refused("nobody waits for this sample any more: ask again")


def _settle(future: asyncio.Future[Sampled], answer: Sampled | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
