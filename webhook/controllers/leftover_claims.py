"""Deletes the ended pods of Kubernetes Jobs that still name a shared claim which others use.

Kubernetes 1.36 adds such a pod to the claim's `status.reservedFor` and removes it again, endlessly: about 170 writes a
second for each such claim, as long as the pod exists (kubernetes#141274, measured). An ended pod of a Job is only kept
for its log, and its Job has counted it when the finalizer `batch.kubernetes.io/job-tracking` is removed; so it is
deleted after a delay in which its log can be fetched. Pods without a Job are not touched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from muster.webhook.cluster import kinds, writes
from muster.webhook.controllers import caches, views
from muster.webhook.controllers.seating import Key

__all__ = ["Leftovers"]

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Leftovers:
    """Deletes pods of jobs that have ended.

    Attributes:
        known: the caches.
        access: sends requests to the API server.
        after: seconds between a pod's end and its deletion; None never deletes one.
        later: called with a key and the seconds after which it is checked again.
        clock: returns monotonic seconds.
    """

    known: caches.Caches
    access: writes.Writes
    after: float | None
    later: Callable[[Key, float], None]
    clock: Callable[[], float] = time.monotonic
    # when each ended pod was first seen, by uid
    _since: dict[Key, dict[str, float]] = field(default_factory=dict, init=False)

    async def sweep(self, key: Key) -> None:
        """Delete the pods that are due at one claim.

        Raises:
            TransportError: the API server refused or did not answer; the caller tries again.
        """
        found = self._found(key)
        if self.after is None or not found:
            self._since.pop(key, None)
            return
        now, before = self.clock(), self._since.get(key, {})
        since = self._since[key] = {pod.uid: before.get(pod.uid, now) for pod in found}
        for pod in found:
            left = self.after - (now - since[pod.uid])
            if left > 0:
                self.later(key, left + 0.01)
            elif await self.access.delete(kinds.POD, pod.namespace, pod.name, pod.uid):
                where = {"namespace": pod.namespace, "object": pod.name, "claim": key.claim}
                _logger.info("ended pod deleted: it names a claim that others use", extra=where)

    def _found(self, key: Key) -> list[views.Pod]:
        """Return ended pods that are not needed any more, if other pods use the claim."""
        if self.known.claims.look(*key) is None:
            return []
        pods = self.known.pods.naming(*key)
        if not any(not pod.ended and not pod.gated for pod in pods):
            return []
        return [pod for pod in pods if pod.ended and pod.counted and not pod.deleting]
