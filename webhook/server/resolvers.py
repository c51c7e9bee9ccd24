"""Resolvers: evaluate a request and make its answer; on a cache miss, fetch the document and evaluate again.

Only here can a decision need the network. When the caches are filled, it does not.

Small reviews are evaluated on the event loop, since a process would cost more; the budget of a document bounds how long
they take, and their authors take turns, between which the loop looks for what has arrived. A large review, one that
needs documents which no cache keeps, and one that calls a plugin are evaluated in a process of its own, which is killed
at the request's deadline. Then, as after any other failure, the answer is that of the failure mode.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import orjson
from msgspec import structs

from muster.strategies.documents.findings import Finding
from muster.webhook.admission import decisions, governors, plugin_calls, reviews
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster import kinds, readers
from muster.webhook.cluster.dry_runs import Question
from muster.webhook.cluster.overlay import Overlay
from muster.webhook.metrics import Metrics
from muster.webhook.server import endings, pod_admission
from muster.webhook.server.endings import Ending
from muster.webhook.server.forks import ForkError, Forks
from muster.webhook.server.picks import Picks
from muster.webhook.server.pod_admission import DryRuns
from muster.webhook.server.turns import Author, Turns

__all__ = ["Asked", "Resolver"]

_log = logging.getLogger(__name__)

# While no cache can be trusted, an admission fetches all that it reads: namespace, job, runtime, snapshot, claims.
_MAX_FETCHES = 12
_LOOK_SECONDS = 0.5
_ASKED = {kind.served: kind for kind in (kinds.JOB, kinds.POD)}

Fetch = Callable[[readers.Ref], Awaitable[readers.Document | None]]


class Asked(NamedTuple):
    """A request, the policy in force, when its body had arrived, by `time.perf_counter`, and whose turn it needs."""

    request: reviews.Request
    policy: Policy
    started: float
    author: Author = ("", "")


class Resolver:
    """Turns requests into answers.

    Args:
        cluster: answers from memory.
        fetch: reads one document from the API server; None when the reader is complete (files).
        metrics: counts fetches.
        dry_runs: asks the API server about the pods of a job that is let in; None where that is off.
    """

    def __init__(
        self,
        cluster: readers.ClusterReader,
        fetch: Fetch | None,
        metrics: Metrics,
        dry_runs: DryRuns | None = None,
    ) -> None:
        self._cluster = cluster
        self._fetch = fetch
        self._metrics = metrics
        self._dry_runs = dry_runs
        self._picks = Picks()
        self._forks = Forks()
        self._turns = Turns(1)

    async def resolve(self, asked: Asked, deadline: float | None = None, *, large: bool = False) -> Ending:
        """Return the answer; whatever fails ends in the failure mode of the job's namespace and framework.

        Args:
            asked: the request.
            deadline: time of the running loop at which the work ends; None for no deadline.
            large: whether it is evaluated in a process of its own.
        """
        overlay = Overlay(self._cluster)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._resolve(asked, overlay, large=large)
        except TimeoutError:
            cause = "Muster did not decide within the time that a request may take"
        except readers.ClusterError as error:
            cause = str(error)
        except ForkError as error:
            cause = f"Muster failed with {error}; its log has uid {asked.request.uid}"
        except BaseException as error:
            if _is_own_end(error):
                raise
            _log.exception("an admission failed", extra={"uid": asked.request.uid, "kind": asked.request.kind})
            cause = f"Muster failed with {type(error).__name__}; its log has uid {asked.request.uid}"
        return await self._failed(asked, cause, overlay, large=large)

    def known(self, request: reviews.Request) -> governors.Governor:
        """Return what memory tells about a job that is not evaluated."""
        return governors.known(request, self._cluster)

    async def _resolve(self, asked: Asked, overlay: Overlay, *, large: bool) -> Ending:
        is_apart = large
        found: list[Finding] | None = None if self._dry_runs is not None else []
        fetched: set[readers.Ref] = set()
        for _ in range(_MAX_FETCHES):
            try:
                made = await (self._apart if is_apart else self._here)(asked, overlay, found)
            except plugin_calls.NotHereError:
                is_apart = True
            except readers.NotCached as missing:
                is_apart = True  # what is not cached may be of any size
                if missing.ref in fetched:  # asked for again, because the one of this name has another uid
                    overlay.put(missing.ref, None)
                else:
                    await self._fill(overlay, missing.ref)
                    fetched.add(missing.ref)
            else:
                if made.questions and self._dry_runs is not None:
                    found = await self._dry_runs.findings(asked.request, made.questions)
                    if found:
                        continue
                self._picks.note(asked.request, made.ending.picks)
                return made.ending
        raise readers.ClusterError("the objects that govern this job changed while they were read; try again")

    async def _here(self, asked: Asked, overlay: Overlay, found: list[Finding] | None) -> _Made:
        async with self._turns.turn(asked.author):
            self._picks.show(asked.request, overlay)
            return _decided(asked, overlay, found)

    async def _apart(self, asked: Asked, overlay: Overlay, found: list[Finding] | None) -> _Made:
        def work() -> bytes:
            try:
                self._picks.show(asked.request, overlay)  # as they are when its turn has come
                made = _decided(asked, overlay, found, alone=True)
                questions = [(each.job, each.kind.served, each.document) for each in made.questions]
                return orjson.dumps({"ending": made.ending, "questions": questions})
            except readers.NotCached as missing:
                return orjson.dumps({"missing": [*missing.ref]})
            except BaseException as error:  # noqa: BLE001  # told by its name
                _log.exception("an evaluation failed", extra={"uid": asked.request.uid, "kind": asked.request.kind})
                return orjson.dumps({"failed": type(error).__name__})

        answer = orjson.loads(await self._forks.run(work, asked.author))
        if "missing" in answer:
            raise readers.NotCached(readers.Ref(*answer["missing"]))
        if "failed" in answer:
            raise ForkError(answer["failed"])
        questions = [Question(job, _ASKED[kind], document) for job, kind, document in answer["questions"]]
        return _Made(Ending(**answer["ending"]), questions)

    async def _failed(self, asked: Asked, cause: str, overlay: Overlay, *, large: bool) -> Ending:
        """Answer by the failure mode, in the mode that memory tells for the job."""

        def look() -> Ending:
            return _given_up(asked, cause, governors.known(asked.request, overlay))

        if not large:
            return look()
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                answer = await self._forks.run(lambda: orjson.dumps(look()), asked.author)
                return Ending(**orjson.loads(answer))
        except BaseException as error:
            if _is_own_end(error):
                raise
            return _given_up(asked, cause, governors.Governor())

    async def _fill(self, overlay: Overlay, ref: readers.Ref) -> None:
        if self._fetch is None:
            raise readers.ClusterUnavailable(f"{ref} could not be read: it is not in any of the given files")
        document: readers.Document | readers.SnapshotInvalid | None
        try:
            document = await self._fetch(ref)
        except readers.SnapshotInvalid as error:
            document = error
        except readers.ClusterError as error:
            self._metrics.fetched("failed")
            raise readers.ClusterError(f"{ref} could not be read: {error}") from error
        self._metrics.fetched("missing" if document is None else "found")
        overlay.put(ref, document)


class _Made(NamedTuple):
    """An answer, and what the API server is asked before it is given."""

    ending: Ending
    questions: Sequence[Question]


def _decided(asked: Asked, overlay: Overlay, found: list[Finding] | None, *, alone: bool = False) -> _Made:
    """Evaluate; in the process of others, whatever is not Muster's own is not called.

    Args:
        asked: the request.
        overlay: the cluster.
        found: what the API server said; None where it has not been asked.
        alone: whether this process is only for this request.
    """
    policy = asked.policy
    if policy.registry.has_plugins and not alone:
        policy = structs.replace(policy, plugin_budget=0.0)
    decision = decisions.evaluate(asked.request, overlay, policy)
    if found:
        decision = decisions.with_findings(decision, policy, found)
    is_asked = found is None and pod_admission.is_asked(decision)
    questions = pod_admission.questions(decision, overlay, policy) if is_asked else ()
    return _Made(endings.end_surely(decision, asked.policy, asked.started), questions)


def _given_up(asked: Asked, cause: str, governor: governors.Governor) -> Ending:
    decision = decisions.failed(asked.request, asked.policy, cause, governor)
    return endings.end_surely(decision, asked.policy, asked.started)


def _is_own_end(error: BaseException) -> bool:
    """Whether an exception ends the running task from outside, rather than comes from the work that it does."""
    task = asyncio.current_task()
    cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
    return cancelled or isinstance(error, GeneratorExit)
