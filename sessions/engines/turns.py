"""Steps of different models that wait at the same time, taken together in shared passes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field

from sessions.seam import Outputs, Refused, Sharing, Step, Trainer
from sessions.wire import steps

__all__ = ["ALONE", "Turns"]

ALONE = "alone"
"""The layout of a step that must not share passes."""
_LOG = logging.getLogger(__name__)
_MODELS = 16  # in shared passes
_DATA = 512  # of all of them, so that a layout fits into a header

Told = tuple[Outputs, str | None]


@dataclass(slots=True)
class _Job:
    model: str
    body: bytes
    layout: str
    answer: Future[Told] = field(default_factory=Future)


class Turns:
    """Runs steps on the thread of an engine, in the order in which they came; the trainer is asked by that thread only.

    Args:
        trainer: whose steps share passes where it is a `Sharing`.
        thread: of the engine.
    """

    def __init__(self, trainer: Trainer | None, thread: Executor) -> None:
        self._trainer, self._thread = trainer, thread
        self._waiting: deque[_Job] = deque()

    def step(self, model: str, body: bytes, layout: str = "") -> Future[Told]:
        """Run a step, and answer what it gave with its layout when it shared passes.

        Args:
            model: of which no other step waits.
            body: a `ForwardBackwardRequest`.
            layout: how it shared passes before, when it runs again; `ALONE`; empty where it may share.
        """
        job = _Job(model, body, layout)
        self._waiting.append(job)
        self._thread.submit(self._turn)
        return job.answer

    @property
    def waiting(self) -> int:
        """How many steps wait for their turn."""
        return len(self._waiting)

    def _turn(self) -> None:
        """Run what waits now; nothing when an earlier turn has run it."""
        jobs = [self._waiting.popleft() for _ in range(len(self._waiting))]
        ready = [(job, step) for job in jobs if (step := _parsed(job)) is not None]
        sharing = isinstance(self._trainer, Sharing)
        free = [each for each in ready if sharing and not each[0].layout]
        for each in ready:
            if each not in free:
                self._alone(*each)
        for some in _groups(free):
            self._together(some)

    def _together(self, some: Sequence[tuple[_Job, Step]]) -> None:
        if len(some) == 1 or not isinstance(self._trainer, Sharing):
            return self._alone(*some[0])
        try:
            answers = self._trainer.steps([(job.model, step) for job, step in some])
        except Exception:  # noqa: BLE001  # whose fault it is shows when each runs alone
            _LOG.exception("shared passes of %s models failed, so each runs alone", len(some))
            for each in some:
                self._alone(*each)
            return None
        for (job, _), answer in zip(some, answers, strict=True):
            if isinstance(answer, Refused):
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)
        return None

    def _alone(self, job: _Job, step: Step) -> None:
        try:
            job.answer.set_result((self._stepped(job, step), None))
        except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
            job.answer.set_exception(error)

    def _stepped(self, job: _Job, step: Step) -> Outputs:
        if self._trainer is None:
            raise Refused("this engine does not train")
        if isinstance(self._trainer, Sharing) and job.layout not in {"", ALONE}:
            return self._trainer.again(job.model, step, job.layout)
        return self._trainer.step(job.model, step)


def _parsed(job: _Job) -> Step | None:
    if not job.answer.set_running_or_notify_cancel():
        return None
    try:
        return steps.step(job.body)
    except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
        job.answer.set_exception(error)
    return None


def _groups(jobs: Sequence[tuple[_Job, Step]]) -> list[list[tuple[_Job, Step]]]:
    """Divide steps into groups of bounded size, in which each model stands once."""
    groups: list[list[tuple[_Job, Step]]] = []
    for job, step in jobs:
        last = groups[-1] if groups else []
        known = any(each.model == job.model for each, _ in last)
        data = len(step.data) + sum(len(each.data) for _, each in last)
        if not last or known or len(last) >= _MODELS or data > _DATA:
            groups.append([])
        groups[-1].append((job, step))
    return groups
