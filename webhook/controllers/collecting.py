"""Keeps what the guard reported: the elected replica reads it, annotates JobSets, and warns by Events.

It reads the status of TrainJobs, where a guard posts while the training runs, and the termination messages of pods.
Pods go, by the time to live of their Job, with a restart, or at once when a guard fails the job, and their termination
messages go with them. The JobSet stays for as long as anybody looks at the job, and Muster itself reads nothing of the
annotation, so whoever writes another text there fools only those who read it. See docs/guard.md.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from muster.kube import payloads, transports
from muster.strategies.documents import names
from muster.webhook import configs
from muster.webhook.cluster import events, kinds, leases, reflector, writes
from muster.webhook.cluster.readers import Document
from muster.webhook.controllers import caches, guards, trainings, views
from muster.webhook.controllers.queues import Loop

__all__ = ["REASON", "Collecting", "CollectingOptions", "options_of"]

REASON: Final = "MusterMeasured"
"""Why there is an Event about a TrainJob or a JobSet: its training is not as was asked for."""

_logger = logging.getLogger(__name__)

_JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
_BUSY, _BROKEN = 429, 500  # statuses of a refusal that is about the moment
_WAITING: Final = 4096  # JobSets whose reports are not written yet


class Key(NamedTuple):
    """One JobSet, by its own uid or by that of the TrainJob from which Trainer made it."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Speaker:
    """A pod of a JobSet or a TrainJob, and what its guard reported.

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

    @classmethod
    def from_trainjob(cls, document: Document) -> Speaker:
        """Make a view of a TrainJob, whose JobSet has its name."""
        metadata = views.decoded(document).metadata
        job = Key(metadata.namespace, metadata.name, metadata.uid)
        return cls(metadata.name, job, trainings.Report.of_trainjob(document))


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
        told: called with the outcome of each training and what Muster had foretold, once that outcome is settled.
        counted: called with verb, plural and outcome of each write.
    """

    def __init__(
        self,
        sender: transports.Sender,
        options: CollectingOptions | None = None,
        told: Callable[[trainings.Outcome, trainings.Predicted], None] = lambda *_: None,
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
        """Follow TrainJobs and the pods of all JobSets until cancelled."""
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
                    jobs = caches.Mirror(kinds.TRAINING, Speaker.from_trainjob, self._changed, source)
                    for each in (pods, jobs):
                        group.create_task(
                            each.reflector.run(), name=f"follow {each.reflector.kind.plural} of trainings"
                        )
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
        document = await self._access.get(kinds.JOBSET, key.namespace, key.name)
        job = None if document is None else views.decoded(document)
        if job is not None and job.metadata.is_known_by(key.uid):
            await self._write(key, job, report.about(job))
        if self._waiting.get(key) is report:
            del self._waiting[key]

    async def _write(self, key: Key, job: views.Object, report: trainings.Report) -> None:
        kept = trainings.parse_report(job.metadata.annotations.get(trainings.ANNOTATION))
        speaks = trainings.chosen(kept, report)
        if speaks == kept:
            return
        speaks = dataclasses.replace(speaks, heard=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        earlier = kept if kept is not None and kept.attempt == speaks.attempt else None
        text = guards.problem(speaks.said)
        if text and (earlier is None or not earlier.said.verdict):
            await self._warn(key, job, speaks.attempt, text)
        annotations = {trainings.ANNOTATION: trainings.format_report(speaks)}
        # The version makes it fail where a report of the other source, or another job of the name, came meanwhile.
        version = {"uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version}
        body = {"metadata": {**version, "annotations": annotations}}
        await self._access.patch(kinds.JOBSET, key.namespace, key.name, body)
        if speaks.is_settled and (earlier is None or not earlier.is_settled or earlier.outcome != speaks.outcome):
            self._told(speaks.outcome, speaks.predicted)
            extra = {"namespace": key.namespace, "job": key.name, "size": speaks.said.size, "outcome": speaks.outcome}
            _logger.info("training reported", extra=extra)

    async def _warn(self, key: Key, job: views.Object, attempt: int, text: str) -> None:
        """Write the Event of an attempt; its name is one, so that a second try makes no second Event.

        Raises:
            TransportError: the API server did not answer.
        """
        owner = job.metadata.owner("TrainJob")
        kind, uid = ("TrainJob", owner.uid) if owner else ("JobSet", job.metadata.uid)
        about = events.Regarding(names.API_VERSIONS[kind], kind, key.namespace, key.name, uid)
        document = events.document(about, REASON, f"{text}.", "Warning", "trainings")
        name = f"{key.name[:180]}.{job.metadata.uid[:40]}.{attempt}"
        try:
            await self._access.create(kinds.EVENT, {**document, "metadata": {"name": name, "namespace": key.namespace}})
        except writes.ConflictError:
            return
        except transports.RefusedError as error:
            if error.status == _BUSY or error.status >= _BROKEN:
                raise
            _logger.warning("event on a training not written", extra={"job": key.name, "problem": str(error)})
