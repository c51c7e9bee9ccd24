"""What is asked of a trainer, in turns by tenant; steps of different models that wait are taken together."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from muster.sessions.fairness import Fair
from muster.sessions.seam import Outputs, Refused, Sharing, Step, Trainer
from muster.sessions.tenancy import Share
from muster.sessions.wire import steps

__all__ = ["ALONE", "Turns"]

ALONE = "alone"
"""The layout of a step that must not share passes."""
_LOG = logging.getLogger(__name__)
_MODELS = 16  # in shared passes
_DATA = 512  # of all of them, so that a layout fits into a header
_SMALL = 128  # tokens that cost a pass little, beside what it costs anyhow; padding is as dear as a token

Told = tuple[Outputs, str | None]


@dataclass
class _Step:
    """A step that waits; `fault` is set where its body is none."""

    model: str
    body: bytes
    layout: str
    answer: Future[Any] = field(default_factory=Future)
    fault: Exception | None = None

    @cached_property
    def step(self) -> Step | None:
        try:
            return steps.step(self.body)
        except Exception as error:  # noqa: BLE001  # whoever asked gets it
            self.fault = error
            return None

    @cached_property
    def lengths(self) -> list[int]:
        return [len(datum.tokens) for datum in self.step.data] if self.step else []

    @property
    def tokens(self) -> int:
        return sum(self.lengths)


@dataclass
class _Other:
    """Anything else that waits."""

    work: Callable[[], Any]
    answer: Future[Any] = field(default_factory=Future)
    tokens: int = 1


class Turns:
    """Runs what is asked on the thread of an engine; the trainer is asked by that thread only.

    Args:
        trainer: whose steps share passes where it is a `Sharing`.
        thread: of the engine.
        clock: seconds, by which it is counted what tenants have had.
    """

    def __init__(
        self, trainer: Trainer | None, thread: Executor, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._trainer, self._thread, self._clock = trainer, thread, clock
        self._fair: Fair[_Step | _Other] = Fair()

    def step(self, share: Share, model: str, body: bytes, layout: str = "") -> Future[Told]:
        """Run a step, and answer what it gave with its layout when it shared passes.

        Args:
            share: whose it is.
            model: of which no other step waits.
            body: a `ForwardBackwardRequest`.
            layout: how it shared passes before, when it runs again; `ALONE`; empty where it may share.
        """
        return self._put(share, model, _Step(model, body, layout))

    def do(self, share: Share, model: str, work: Callable[[], Any]) -> Future[Any]:
        """Run anything else, and answer what it returns."""
        return self._put(share, model, _Other(work))

    @property
    def waiting(self) -> int:
        """How much waits for its turn."""
        return len(self._fair)

    def _put(self, share: Share, model: str, job: _Step | _Other) -> Future[Any]:
        self._fair.put(share, model, job)
        self._thread.submit(self._turn)
        return job.answer

    def _turn(self) -> None:
        """Run what is next, with company where it shares passes; nothing when an earlier turn has run it."""
        began, taken = self._clock(), self._fair.take()
        if taken is None:
            return
        share, head = taken
        group = [taken]
        if isinstance(head, _Step) and self._shares(head):
            group += self._fair.company(_Company(share, head, self._fair.is_alone(share.tenant), self._shares))
        self._run([job for _, job in group if job.answer.set_running_or_notify_cancel()])
        self._fair.spent(_parts(group, self._clock() - began))

    def _shares(self, job: _Step) -> bool:
        return isinstance(self._trainer, Sharing) and not job.layout and job.step is not None

    def _run(self, jobs: Sequence[_Step | _Other]) -> None:
        ready = []
        for job in jobs:
            if isinstance(job, _Other):
                _settle(job.answer, job.work)
            elif job.step is None:
                job.answer.set_exception(job.fault or Refused("forward_backward: cannot be read"))
            else:
                ready.append((job, job.step))
        if ready:
            self._together(ready)

    def _together(self, some: Sequence[tuple[_Step, Step]]) -> None:
        if len(some) == 1 or not isinstance(self._trainer, Sharing):
            for each in some:
                self._alone(*each)
            return
        try:
            answers = self._trainer.steps([(job.model, step) for job, step in some])
        except Exception:  # noqa: BLE001  # whose fault it is shows when each runs alone
            _LOG.exception("shared passes of %s models failed, so each runs alone", len(some))
            for each in some:
                self._alone(*each)
            return
        for (job, _), answer in zip(some, answers, strict=True):
            if isinstance(answer, Refused):
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)

    def _alone(self, job: _Step, step: Step) -> None:
        _settle(job.answer, lambda: (self._stepped(job, step), None))

    def _stepped(self, job: _Step, step: Step) -> Outputs:
        if self._trainer is None:
            raise Refused("this engine does not train")
        if isinstance(self._trainer, Sharing) and job.layout not in {"", ALONE}:
            return self._trainer.again(job.model, step, job.layout)
        return self._trainer.step(job.model, step)


class _Company:
    """Decides which steps share the passes of another.

    A tenant who is alone has as many as a layout holds. Beside others nobody makes a pass much longer for anybody: each
    tenant has what costs little, or a quarter of what the first step costs.
    """

    def __init__(self, share: Share, head: _Step, is_alone: bool, shares: Callable[[_Step], bool]) -> None:
        self._shares = shares
        self._models, self._rows, self._longest = {head.model}, len(head.lengths), max(head.lengths, default=0)
        padded = self._rows * self._longest
        self._added = Counter({share.tenant: padded})
        self._most = None if is_alone else max(_SMALL, padded // 4)

    def __call__(self, share: Share, job: _Step | _Other) -> bool:
        if not isinstance(job, _Step) or not self._shares(job) or job.step is None or job.model in self._models:
            return False
        rows, longest = self._rows + len(job.lengths), max(self._longest, *job.lengths)
        added = self._added[share.tenant] + rows * longest - self._rows * self._longest
        if len(self._models) >= _MODELS or rows > _DATA or (self._most is not None and added > self._most):
            return False
        self._models.add(job.model)
        self._rows, self._longest, self._added[share.tenant] = rows, longest, added
        return True


def _parts(group: Sequence[tuple[Share, _Step | _Other]], seconds: float) -> dict[str, float]:
    """Divide what a group took among its tenants, by tokens."""
    tokens: Counter[str] = Counter()
    for share, job in group:
        tokens[share.tenant] += max(1, job.tokens)
    return {tenant: seconds * count / tokens.total() for tenant, count in tokens.items()}


def _settle(answer: Future[Any], work: Callable[[], Any]) -> None:
    try:
        told = work()
    except BaseException as error:  # noqa: BLE001  # whoever asked gets it, also the end of the process
        answer.set_exception(error)
    else:
        answer.set_result(told)
