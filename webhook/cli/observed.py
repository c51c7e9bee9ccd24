"""What a cluster has about one job at one moment, and how it is read; what may not be read is named and left out."""

from __future__ import annotations

import datetime
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias, TypeVar

from msgspec import Struct, field

from muster.audit.record_schema import Sealed
from muster.kube import transports
from muster.strategies.changes import restores
from muster.strategies.documents import names
from muster.strategies.documents.decoding import items, member
from muster.webhook.cluster import kinds, listings, readers, served, writes
from muster.webhook.cluster.readers import Document
from muster.webhook.controllers import guards, trainings, views

__all__ = ["Asked", "Document", "Observed", "Records", "condition", "containers", "every", "one", "seconds_since"]

Records: TypeAlias = Callable[[str, str], Sequence[Sealed]]
"""Returns the audit records about a job, by its namespace and name."""
_Key: TypeAlias = tuple[str, str]  # namespace and name
_Group = TypeVar("_Group")
_DEADLINE = 10.0  # seconds for one request
_FORBIDDEN = 403
_TRAINJOB = kinds.KINDS["TrainJob"]


class Observed(Struct, frozen=True, dict=True):
    """The objects of one job.

    Attributes:
        namespace, name: of the job; its JobSet has the same name.
        now: the moment, with a time zone.
        trainjob, jobset: empty where there is none.
        pods: the pods of the JobSet, oldest first.
        events: the Events about the job, its Kubernetes Jobs and its pods, oldest first.
        claims: the shared ResourceClaims of the namespace that Muster made.
        records: audit records about the job, oldest first.
        unread: what the reader of the cluster may not read, in words.
    """

    namespace: str
    name: str
    now: datetime.datetime
    trainjob: Document = field(default_factory=dict)
    jobset: Document = field(default_factory=dict)
    pods: Sequence[Document] = ()
    events: Sequence[Document] = ()
    claims: Sequence[Document] = ()
    records: Sequence[Sealed] = ()
    unread: Sequence[str] = ()

    @property
    def job(self) -> Document:
        """What the user made: the TrainJob, else the JobSet; empty where there is neither."""
        return self.trainjob or self.jobset

    @property
    def kind(self) -> str:
        """`TrainJob` or `JobSet`; of a job that is not there, the kind that its Events name."""
        if self.job:
            return "TrainJob" if self.trainjob else "JobSet"
        return next((event["involvedObject"]["kind"] for event in self.about("TrainJob", "JobSet")), "TrainJob")

    def about(self, *kinds: str) -> Iterator[Document]:
        """Yield the Events about objects of these kinds, the newest first."""
        return (each for each in reversed(self.events) if each["involvedObject"].get("kind") in kinds)

    @functools.cached_property
    def live_pods(self) -> list[Document]:
        """The pods that have not ended."""
        return [each for each in self.pods if member(each, "status").get("phase") not in ("Succeeded", "Failed")]

    def is_on(self, kind: str) -> bool:
        """Whether a condition of the TrainJob or of the JobSet is true."""
        return bool(condition(self.trainjob, kind) or condition(self.jobset, kind))

    @functools.cached_property
    def report(self) -> trainings.Report | None:
        """What the guard reported: what Muster kept of it, and what the TrainJob and pods say now."""
        if not self.jobset:
            return None
        report, jobset = self.kept, views.decoded(self.jobset)
        found = [trainings.Report.of_trainjob(self.trainjob), *(trainings.Report.of_pod(pod) for pod in self.pods)]
        for each in filter(None, found):
            report = trainings.chosen(report, each.about(jobset))
        return report

    @property
    def predicted(self) -> trainings.Predicted:
        """What Muster foretold when the JobSet was created."""
        certain = restores.is_certain(member(self.jobset, "metadata", "annotations"))
        return "right" if certain else "open"

    @property
    def verdict(self) -> guards.Verdict | None:
        """What is wrong with the training."""
        return self.report.said.verdict if self.report else None

    @property
    def kept(self) -> trainings.Report | None:
        """What Muster kept of the guard's report on the JobSet."""
        return trainings.parse_report(member(self.jobset, "metadata", "annotations").get(trainings.ANNOTATION))

    @functools.cached_property
    def asked(self) -> guards.Expected | None:
        """The number of ranks that was asked for: what Muster has written into the containers, else what pods say."""
        sizes = {
            variable.get("value")
            for job in items(member(self.jobset, "spec"), "replicatedJobs")
            for container in items(member(job, "template", "spec", "template", "spec"), "containers")
            for variable in items(container, "env")
            if variable.get("name") == names.EXPECTED_WORLD_SIZE and variable.get("value")
        }
        written = guards.expected(sizes.pop()) if len(sizes) == 1 else None
        return self.report.said.expected or written if self.report else written

    @property
    def is_right(self) -> bool | None:
        """Whether the training had the size that was asked for; None where one of both is not known."""
        return self.asked.holds(self.report.said.size) if self.asked and self.report else None


def condition(document: Document, kind: str, status: str = "True") -> Document:
    """Return the condition of an object, if it has this status; else an empty one."""
    found = items(member(document, "status"), "conditions")
    return next((each for each in found if (each.get("type"), each.get("status")) == (kind, status)), {})


def containers(pod: Document) -> list[Document]:
    """Return the statuses of the containers of a pod, initializers first."""
    status = member(pod, "status")
    return [*items(status, "initContainerStatuses"), *items(status, "containerStatuses")]


def seconds_since(moment: object, now: datetime.datetime) -> float:
    """Return the seconds from an RFC 3339 time to now; 0 for a time in the future, or what is none."""
    try:
        return max((now - datetime.datetime.fromisoformat(str(moment))).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0


class Asked(Struct, frozen=True):
    """What is asked of a cluster: one connection, and the audit records that are at hand."""

    sender: transports.Sender
    records: Records = lambda _namespace, _name: ()
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)


async def one(asked: Asked, namespace: str, name: str) -> Observed | None:
    """Return what the cluster has about one job; None when it has neither the job nor a word about one.

    Raises:
        TransportError: the API server did not answer, or refuses to show jobs.
    """
    if not kinds.JOBSET.can_exist(readers.Ref("JobSet", namespace, name)):
        return None
    access = writes.Writes(asked.sender, _DEADLINE)
    found = [await access.get(kind, namespace, name) for kind in (_TRAINJOB, kinds.JOBSET)]
    objects = [{(namespace, name): each} if each else {} for each in found]
    observed = await _all(asked, namespace, f"{names.JOBSET_NAME_LABEL}={name}", objects, {(namespace, name)})
    return next((each for each in observed if each.name == name), None)


async def every(asked: Asked, namespace: str) -> list[Observed]:
    """Return what the cluster has about all jobs of a namespace, "" for all namespaces.

    Raises:
        TransportError: the API server did not answer, or refuses to show jobs.
    """
    found = [await _listed(asked, kind, namespace) for kind in (_TRAINJOB, kinds.JOBSET)]
    objects = [{_key(each): each for each in documents} for documents in found]
    return await _all(asked, namespace, names.JOBSET_NAME_LABEL, objects, set())


async def _all(
    asked: Asked, namespace: str, selector: str, objects: Sequence[Mapping[_Key, Document]], looked_for: set[_Key]
) -> list[Observed]:
    """Return the jobs of these objects, and those of which only an Event or a record tells, with all that is theirs.

    Args:
        asked: the cluster.
        namespace: "" for all.
        selector: of the pods.
        objects: the TrainJobs and the JobSets.
        looked_for: jobs that may be told of by records only.
    """
    unread: list[str] = []

    async def listed(kind: served.Kind, chosen: str) -> list[Document]:
        try:
            return await _listed(asked, kind, namespace, chosen)
        except transports.RefusedError as error:
            if error.status != _FORBIDDEN:
                raise
            unread.append(kind.plural)
            return []

    known = looked_for.union(*objects)
    pods = _grouped(await listed(kinds.POD, selector), _job_of)
    owners = {_key(pod): key for key, found in pods.items() for pod in found}
    events = _grouped(await listed(kinds.EVENT, ""), lambda each: _about(each, known, owners))
    claims = _grouped(await listed(kinds.CLAIM, kinds.CLAIM.selector), lambda each: str(each["metadata"]["namespace"]))

    def observed(key: _Key) -> Observed:
        """Return one job without pods and Events of an earlier one of its name."""
        trainjob, jobset = (found.get(key, {}) for found in objects)
        uids = {None, member(jobset, "metadata").get("uid")}
        born = str(member(trainjob or jobset, "metadata").get("creationTimestamp") or "")[:19]
        own = [each for each in pods.get(key, ()) if jobset and member(each, "metadata", "labels").get(_UID) in uids]
        own.sort(key=lambda each: (each["metadata"].get("creationTimestamp") or "", each["metadata"]["name"]))
        said = sorted((each for each in events.get(key, ()) if _moment(each) >= born), key=_moment)
        records = asked.records(*key)
        return Observed(*key, asked.now(), trainjob, jobset, own, said, claims.get(key[0], ()), records, tuple(unread))

    keys = {key for key, found in events.items() if any(map(_is_refusal, found))}.union(*objects)
    return [observed(key) for key in sorted(keys | {key for key in looked_for if asked.records(*key)})]


_UID = "jobset.sigs.k8s.io/jobset-uid"


async def _listed(asked: Asked, kind: served.Kind, namespace: str, selector: str = "") -> list[Document]:
    return [*await listings.read(asked.sender, kind, namespace, _DEADLINE, selector=selector, status=True)]


def _grouped(documents: Iterable[Document], key: Callable[[Document], _Group]) -> dict[_Group, list[Document]]:
    groups: dict[_Group, list[Document]] = defaultdict(list)
    for each in documents:
        groups[key(each)].append(each)
    return groups


def _key(document: Document) -> _Key:
    return document["metadata"]["namespace"], document["metadata"]["name"]


def _job_of(pod: Document) -> _Key:
    return pod["metadata"]["namespace"], member(pod, "metadata", "labels").get(names.JOBSET_NAME_LABEL, "")


def _about(event: Document, jobs: AbstractSet[_Key], owners: Mapping[_Key, _Key]) -> _Key:
    """Return the job that an Event is about: itself, or the job of the pod or the Kubernetes Job that it names."""
    about = member(event, "involvedObject")
    namespace, name = event["metadata"]["namespace"], str(about.get("name") or "")
    if about.get("kind") == "Pod" and (namespace, name) in owners:
        return owners[namespace, name]
    if about.get("kind") not in {"Job", "Pod"}:
        return namespace, name if about.get("kind") in {"TrainJob", "JobSet"} else ""
    while name and (namespace, name) not in jobs:  # JOBSET-REPLICATEDJOB-0, and for a pod of it -0-abcde
        name = name.rpartition("-")[0]
    return namespace, name


def _is_refusal(event: Document) -> bool:
    return event.get("reason") == "MusterDenied" and event["involvedObject"].get("kind") in {"TrainJob", "JobSet"}


def _moment(event: Document) -> str:
    """Return when an Event happened last, in a form of which texts compare as times do."""
    found = (member(event, "series").get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, found), None) or event["metadata"].get("creationTimestamp") or "")[:19]
