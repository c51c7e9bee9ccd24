"""Resolvers: evaluate a request; on a cache miss, fetch the document and evaluate again.

Only here can a decision need the network. When the caches are filled, it does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from webhook.admission import decisions, reviews
from webhook.admission.decisions import Decision
from webhook.admission.policies import Policy
from webhook.cluster import readers
from webhook.cluster.overlay import Overlay
from webhook.metrics import Metrics
from webhook.server.picks import Picks

__all__ = ["Resolver"]

# While no cache can be trusted, an admission fetches all that it reads: namespace, job, runtime, snapshot, claims.
_MAX_FETCHES = 12
_THREADS = 8

Fetch = Callable[[readers.Ref], Awaitable[readers.Document | None]]


class Resolver:
    """Turns requests into decisions.

    Args:
        cluster: answers from memory.
        fetch: reads one document from the API server; None when the reader is complete (files).
        metrics: counts fetches.
    """

    def __init__(self, cluster: readers.ClusterReader, fetch: Fetch | None, metrics: Metrics) -> None:
        self._cluster = cluster
        self._fetch = fetch
        self._metrics = metrics
        self._picks = Picks()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="evaluate")

    async def decide(self, request: reviews.Request, policy: Policy) -> Decision:
        """Return the decision; a cluster that does not answer ends in the policy's failure mode."""
        overlay = Overlay(self._cluster)
        for _ in range(_MAX_FETCHES):
            self._picks.show(request, overlay)
            try:
                decision = await self._evaluate(request, overlay, policy)
                self._picks.note(decision)
            except readers.NotCached as missing:
                try:
                    await self._fill(overlay, missing.ref)
                except readers.ClusterError as error:
                    self._metrics.fetched("failed")
                    return decisions.failed(request, policy, f"{missing.ref} could not be read: {error}")
            else:
                return decision
        cause = "the objects that govern this job changed while they were read; try again"
        return decisions.failed(request, policy, cause)

    def close(self) -> None:
        """Release the threads; one that hangs does not keep the process alive."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _evaluate(self, request: reviews.Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
        """Muster's strategies take microseconds and run here; a plugin may hang and must not block the event loop."""
        if not policy.registry.has_plugins:
            return decisions.evaluate(request, cluster, policy)
        work = partial(decisions.evaluate, request, cluster, policy)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _fill(self, overlay: Overlay, ref: readers.Ref) -> None:
        if self._fetch is None:
            raise readers.ClusterUnavailable("it is not in any of the given files")
        document = await self._fetch(ref)
        self._metrics.fetched("missing" if document is None else "found")
        overlay.put(ref, document)
