"""Keeps what the guard reported: the elected replica reads termination messages of pods and annotates their JobSets.

Pods go, by the time to live of their Job, with a restart, or at once when a guard fails the job, and their termination
messages go with them. The JobSet stays for as long as anybody looks at the job, and Muster itself reads nothing of the
annotation, so whoever writes another text there fools only those who read it. See docs/guard.md.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from muster.kube import payloads, transports
from muster.strategies.documents import names
from muster.webhook import configs
from muster.webhook.cluster import kinds, leases, reflector, writes
from muster.webhook.cluster.readers import Document
from muster.webhook.controllers import caches, trainings, views
from muster.webhook.controllers.queues import Loop

__all__ = ["Collecting", "CollectingOptions", "options_of"]

_logger = logging.getLogger(__name__)

_JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
_WAITING: Final = 4096  # JobSets whose reports are not written yet


class Key(NamedTuple):
    """One JobSet."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Speaker:
    """A pod of a JobSet, and what its guard reported.

    Attributes:
        job: its JobSet; None for a pod that no Kubernetes Job made, or that names no JobSet.
        report: what it reported; None as long as it has not.
    """

    name: str
    job: Key | None
    report: trainings.Report | None

    @classmethod
    def from_document(cls, document: Document) -> Speaker:
        """Make a view of a pod; nothing of a message that is not a report stays in memory."""
        metadata = views.decoded(document).metadata
        labels = metadata.labels
        job = Key(metadata.namespace, labels.get(names.JOBSET_NAME_LABEL, ""), labels.get(_JOBSET_UID, ""))
        return cls(metadata.name, job if metadata.is_of_job and all(job) else None, trainings.Report.of_pod(document))


@dataclass(frozen=True, slots=True)
class CollectingOptions:
    """The options of the collector.

    Attributes:
        terms: the Lease and its times.
        deadline: seconds for one request.
        room: bytes of which the views of pods may take a share.
        namespaces: whose pods are followed; () for all.
        pace: the times of the watch.
    """

    terms: leases.Terms = field(default_factory=lambda: leases.Terms(name="muster-trainings"))
    deadline: float = 5.0
    room: int = caches.ROOM
    namespaces: tuple[str, ...] = ()
    pace: reflector.Pace = field(default_factory=reflector.Pace)


def options_of(settings: configs.TrainingSettings, cluster: configs.ClusterSettings) -> CollectingOptions:
    """Return the options that two sections of a configuration file ask for."""
    lease = settings.lease
    terms = leases.Terms(lease.name, lease.namespace, lease.duration, lease.deadline, lease.retry)
    return CollectingOptions(terms, settings.deadline, cluster.cache_limit, cluster.namespaces)


class Collecting:
    """One replica of the collector.

    Args:
        sender: a connection to the API server; not closed here.
        options: see `CollectingOptions`.
        told: called with the outcome of each training whose report was written.
        counted: called with verb, plural and outcome of each write.
    """

    def __init__(
        self,
        sender: transports.Sender,
        options: CollectingOptions | None = None,
        told: Callable[[trainings.Outcome], None] = lambda _: None,
        counted: Callable[[str, str, str], None] = lambda *_: None,
    ) -> None:
        self._sender = sender
        self._options = options or CollectingOptions()
        self._told = told
        self._rng = random.Random()  # noqa: S311 - jitter, no secret
        self._access = writes.Writes(sender, self._options.deadline, counted)
        self._election = leases.Election(self._access, self._options.terms, leases.identity())
        self._waiting: dict[Key, trainings.Report] = {}
        self._loop: Loop[Key] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; needs a running event loop. Returns at once."""
        self._task = asyncio.create_task(self._run(), name="collector of trainings")

    async def stop(self) -> None:
        """Stop the work and release the Lease. Stopping twice has no further effect."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def leads(self) -> dict[str, float]:
        """Return 1 or 0 by the name of the Lease, as a gauge."""
        return {self._options.terms.name: float(self._loop is not None)}

    async def _run(self) -> None:
        while True:
            try:
                await self._election.hold(self._lead)
            except Exception:
                _logger.exception("the collector of trainings failed and starts over")
            await asyncio.sleep(self._rng.uniform(0.5, 1.5))

    async def _lead(self) -> None:
        """Follow the pods of all JobSets until cancelled."""
        spaces = self._options.namespaces or ("",)
        room, turn = self._options.room // len(spaces), payloads.Turn()
        loop: Loop[Key] = Loop("trainings", self._keep, self._rng, workers=2)
        self._waiting.clear()
        self._loop = loop
        try:
            async with asyncio.TaskGroup() as group:
                for space in spaces:
                    source = caches.Source(self._sender, self._options.pace, room, turn, space)
                    pods = caches.Mirror(kinds.RANK, Speaker.from_document, self._changed, source)
                    group.create_task(pods.reflector.run(), name="follow pods of trainings")
                group.create_task(loop.run(), name="trainings")
        finally:
            self._loop = None

    def _changed(self, before: Speaker | None, after: Speaker | None) -> None:
        """Queue the JobSet of a pod that has reported something new."""
        if after is None or after.job is None or after.report is None or self._loop is None:
            return
        if before is not None and before.report == after.report:
            return
        if len(self._waiting) >= _WAITING and after.job not in self._waiting:
            _logger.warning("too many reports of trainings wait, so one is not kept", extra={"job": after.job.name})
            return
        self._waiting[after.job] = trainings.chosen(self._waiting.get(after.job), after.report)
        self._loop.queue.add(after.job)

    async def _keep(self, key: Key) -> None:
        """Write the report of a JobSet, unless what is there speaks for the training already.

        Raises:
            TransportError: it was not written and is to be tried again.
        """
        report = self._waiting.get(key)
        if report is None:
            return
        job = await self._access.get(kinds.JOBSET, key.namespace, key.name)
        found = None if job is None else views.decoded(job).metadata
        if found is not None and found.uid == key.uid:
            await self._write(key, found, report)
        if self._waiting.get(key) is report:
            del self._waiting[key]

    async def _write(self, key: Key, found: views.Metadata, report: trainings.Report) -> None:
        kept = trainings.parse_report(found.annotations.get(trainings.ANNOTATION))
        speaks = trainings.chosen(kept, report)
        if speaks == kept:
            return
        annotations = {trainings.ANNOTATION: trainings.format_report(speaks)}
        # The uid makes it fail for a job of the same name that was created meanwhile.
        body = {"metadata": {"uid": key.uid, "annotations": annotations}}
        await self._access.patch(kinds.JOBSET, key.namespace, key.name, body)
        if kept is None or (kept.attempt, kept.outcome) != (speaks.attempt, speaks.outcome):
            self._told(speaks.outcome)
            extra = {"namespace": key.namespace, "job": key.name, "size": speaks.said.size, "outcome": speaks.outcome}
            _logger.info("training reported", extra=extra)
