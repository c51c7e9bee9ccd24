"""Dry runs in the validating phase: what the API server would refuse of a job's Jobs and pods, told when it is created.

A job that Muster lets in is asked for last. Nothing that keeps the API server from an answer refuses a job: no right,
an error, no answer within the deadline. Then nobody asks for a while, so that a slow API server does not make every
admission slow. Answers that follow from the object alone are kept for a short time by the hash of the object.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import orjson
from msgspec import structs

from muster.kube import transports
from muster.strategies.documents import decoding, names
from muster.strategies.documents.findings import Finding
from muster.strategies.trainer import predictions
from muster.webhook.admission import decisions
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.admission.reviews import Request
from muster.webhook.cluster import dry_runs, readers
from muster.webhook.cluster.dry_runs import Answer, Question
from muster.webhook.cluster.overlay import Overlay

__all__ = ["DryRuns", "is_asked", "questions"]

_log = logging.getLogger(__name__)
_MOST_AT_ONCE, _MOST_ASKED, _MOST_KEPT = 16, 40, 2048  # requests, objects of one job, answers
_KEPT_FOR, _PAUSE = 30.0, 30.0  # seconds for which an answer is kept, and for which nobody asks after a failure


def is_asked(decision: Decision) -> bool:
    """Whether a job is about to be created: the JobSet of a TrainJob was asked for with that TrainJob.

    The trials of an OptimizationJob are asked for as they are created.
    """
    request, governor = decision.request, decision.governor
    asked = request.phase == "validate" and request.operation == "CREATE" and decision.verdict == "allowed"
    asked = asked and request.kind != names.OPTIMIZATION_JOB
    return asked and decision.mode is not Mode.OFF and governor.owner is None


def questions(decision: Decision, cluster: Overlay, policy: Policy) -> Sequence[Question]:
    """Return the objects that would be made for a job; none for one whose JobSet cannot be predicted.

    Args:
        decision: of the validating phase.
        cluster: what the decision read.
        policy: the policy in force.
    """
    request, runtime = decision.request, decision.governor.runtime
    if request.kind == "JobSet":
        return list(itertools.islice(dry_runs.questions(request.document, request.namespace), _MOST_ASKED))
    if runtime is None or decoding.check(runtime.document):
        return ()
    name, seen = predictions.job_name(request.document), Overlay(cluster)
    try:
        jobset = predictions.predict(request.document, runtime, request.namespace).jobset
    except predictions.UnpredictableError:
        return ()
    seen.put(readers.Ref("TrainJob", request.namespace, name), request.document)
    made = structs.replace(request, phase="mutate", kind="JobSet", group=names.JOBSET_GROUP, name=name, document=jobset)
    with contextlib.suppress(readers.NotCached):
        jobset = dict(decisions.evaluate(made, seen, policy).document)
    return list(itertools.islice(dry_runs.questions(jobset, request.namespace, runtime, name), _MOST_ASKED))


class DryRuns:
    """Asks the API server, and keeps answers.

    Args:
        sender: a connection to it; not closed here.
        seconds: for all that is asked about one job.
        counted: called with the outcome of each question: `made`, `refused`, `kept`, `failed`, `forbidden`, `paused`.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        sender: transports.Sender,
        seconds: float,
        counted: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender, self._seconds, self._counted, self._clock = sender, seconds, counted, clock
        self._free = asyncio.Semaphore(_MOST_AT_ONCE)
        self._kept: OrderedDict[bytes, tuple[float, Answer]] = (
            OrderedDict()
        )  # by hash of the object, or namespace; until when
        self._paused_until = 0.0
        self._told = ""

    async def findings(self, request: Request, asked: Sequence[Question]) -> list[Finding]:
        """Return what the API server refuses of a job; nothing where that is not known in time.

        Args:
            request: about the job.
            asked: what is asked, as `questions` returns it.
        """
        tasks = [asyncio.create_task(self._answer(each, request.namespace)) for each in asked]
        try:
            await asyncio.wait(tasks, timeout=self._seconds) if tasks else None
        finally:
            for task in tasks:
                task.cancel()
        done = [(each, task.result()) for each, task in zip(asked, tasks, strict=True) if _is_answered(task)]
        if len(done) < len(tasks):
            self._trouble(Answer(trouble=f"dry runs in {request.namespace} took over {self._seconds:g} s"), "")
        return list(dry_runs.findings(done, request.kind))

    async def _answer(self, question: Question, namespace: str) -> Answer:
        text = orjson.dumps(question.document, option=orjson.OPT_SORT_KEYS)
        key = hashlib.sha256(text).digest()
        until, kept = self._kept.get(key, (0.0, Answer()))
        if until > self._clock():
            self._counted("kept")
            return kept
        async with self._free:
            if max(self._paused_until, self._kept.get(namespace.encode(), (0.0,))[0]) > self._clock():
                self._counted("paused")
                return Answer()
            answer = await dry_runs.ask(self._sender, question.kind, namespace, question.document, self._seconds)
        if answer.trouble:
            self._trouble(answer, namespace)
            return answer
        self._told = ""
        self._counted("refused" if answer.refusal else "made")
        if answer.lasts:
            self._keep(key, answer)
        return answer

    def _keep(self, key: bytes, answer: Answer) -> None:
        self._kept[key] = (self._clock() + _KEPT_FOR, answer)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def _trouble(self, answer: Answer, namespace: str) -> None:
        """Count, pause (in one namespace where only rights lack), and write one line until there is an answer again."""
        self._counted("forbidden" if answer.forbidden else "failed")
        if answer.forbidden:
            self._keep(namespace.encode(), answer)
        else:
            self._paused_until = self._clock() + _PAUSE
        if not self._told:
            _log.warning("a dry run was not made, and the job was let in", extra={"cause": answer.trouble})
        self._told = answer.trouble


def _is_answered(task: asyncio.Task[Answer]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
