"""Resolvers: evaluate a request; on a cache miss, fetch the document and evaluate again.

Only here can a decision need the network. When the caches are filled, it does not.

Small reviews are evaluated on the event loop, since another thread would cost more; the budget of a document bounds how
long they take. A large review, one that needs documents which no cache keeps, and all reviews while a plugin is
registered are evaluated on a thread, which is ended at the request's deadline. Then, as after any other failure, the
answer is that of the failure mode.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from muster.webhook.admission import decisions, governors, reviews
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster import readers
from muster.webhook.cluster.overlay import Overlay
from muster.webhook.metrics import Metrics
from muster.webhook.server import pod_admission
from muster.webhook.server.picks import Picks
from muster.webhook.server.pod_admission import DryRuns
from muster.webhook.server.workers import CrowdedError, Place, Workers

__all__ = ["Resolver", "is_own_end"]

_log = logging.getLogger(__name__)

# While no cache can be trusted, an admission fetches all that it reads: namespace, job, runtime, snapshot, claims.
_MAX_FETCHES = 12
_PLUGIN_THREADS = 8
_LOOK_SECONDS = 0.25

_Made = TypeVar("_Made")
Fetch = Callable[[readers.Ref], Awaitable[readers.Document | None]]


class Resolver:
    """Turns requests into decisions.

    Args:
        cluster: answers from memory.
        fetch: reads one document from the API server; None when the reader is complete (files).
        metrics: counts fetches.
        dry_runs: asks the API server about the pods of a job that is let in; None where that is off.

    Attributes:
        workers: where large reviews are read and evaluated.
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
        self.workers = Workers()
        self._plugin_workers = Workers(_PLUGIN_THREADS, _PLUGIN_THREADS)

    async def decide(
        self, request: reviews.Request, policy: Policy, deadline: float | None = None, place: Place | None = None
    ) -> Decision:
        """Return the decision; whatever fails ends in the failure mode of the job's namespace and framework.

        Args:
            request: the request.
            policy: the policy in force.
            deadline: time of the running loop at which the work ends; None for no deadline.
            place: where to evaluate; None for a small review.
        """
        overlay = Overlay(self._cluster)
        try:
            async with asyncio.timeout_at(deadline):
                decision = await self._decide(request, policy, overlay, place)
                if self._dry_runs is None or not pod_admission.is_asked(decision):
                    return decision
                work = partial(pod_admission.questions, decision, overlay, policy)
                asked = await self._run(work, self._threads(policy, fetched=False), place)
                return await self._dry_runs.judge(decision, policy, asked)
        except TimeoutError:
            cause = "Muster did not decide within the time that a request may take"
        except CrowdedError as error:
            cause = f"Muster is busy: {error}"
        except BaseException as error:
            if is_own_end(error):
                raise
            _log.exception("an admission failed", extra={"uid": request.uid, "kind": request.kind})
            cause = f"Muster failed with {type(error).__name__}; its log has uid {request.uid}"
        return decisions.failed(request, policy, cause, await self._known(request, overlay, place))

    def known(self, request: reviews.Request) -> governors.Governor:
        """Return what memory tells about a job that is not evaluated."""
        return governors.known(request, self._cluster)

    def strays(self) -> dict[str, float]:
        """Return the number of threads that were told to end and have not."""
        return {"large": float(self.workers.strays), "plugin": float(self._plugin_workers.strays)}

    def close(self) -> None:
        """Let the threads go; one that hangs does not keep the process alive."""
        self.workers.close()
        self._plugin_workers.close()

    async def _decide(
        self, request: reviews.Request, policy: Policy, overlay: Overlay, place: Place | None
    ) -> Decision:
        fetched = False
        for _ in range(_MAX_FETCHES):
            self._picks.show(request, overlay)
            work = partial(decisions.evaluate, request, overlay, policy)
            try:
                decision = await self._run(work, self._threads(policy, fetched=fetched), place)
            except readers.NotCached as missing:
                fetched = True
                try:
                    await self._fill(overlay, missing.ref)
                except readers.ClusterError as error:
                    self._metrics.fetched("failed")
                    cause = f"{missing.ref} could not be read: {error}"
                    return decisions.failed(request, policy, cause, await self._known(request, overlay, place))
            else:
                self._picks.note(decision)
                return decision
        cause = "the objects that govern this job changed while they were read; try again"
        return decisions.failed(request, policy, cause, await self._known(request, overlay, place))

    def _threads(self, policy: Policy, *, fetched: bool) -> Workers | None:
        """Strategies of Muster run on the event loop; a plugin may hang, and what is not cached may be of any size."""
        if policy.registry.has_plugins:
            return self._plugin_workers
        return self.workers if fetched else None

    async def _run(self, work: Callable[[], _Made], workers: Workers | None, place: Place | None) -> _Made:
        if place is not None:
            return await place.run(work)
        if workers is None:
            return work()
        async with workers.place() as own:
            return await own.run(work)

    async def _known(self, request: reviews.Request, overlay: Overlay, place: Place | None) -> governors.Governor:
        """Return what memory tells about the job, for the mode in which a failure is answered."""
        work = partial(governors.known, request, overlay)
        if place is None:
            return work()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                return await place.run(work)
        return governors.Governor()

    async def _fill(self, overlay: Overlay, ref: readers.Ref) -> None:
        if self._fetch is None:
            raise readers.ClusterUnavailable("it is not in any of the given files")
        document: readers.Document | readers.SnapshotInvalid | None
        try:
            document = await self._fetch(ref)
        except readers.SnapshotInvalid as error:
            document = error
        self._metrics.fetched("missing" if document is None else "found")
        overlay.put(ref, document)


def is_own_end(error: BaseException) -> bool:
    """Whether an exception ends the running task from outside, rather than comes from the work that it does."""
    task = asyncio.current_task()
    cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
    return cancelled or isinstance(error, GeneratorExit)
