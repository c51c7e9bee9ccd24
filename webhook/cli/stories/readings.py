"""Readings: gets from a cluster what stories are told from, and goes on without what may not be read."""

from __future__ import annotations

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from muster.audit.record_schema import Sealed
from muster.kube import transports
from muster.strategies.documents import names
from muster.webhook.cli.stories.gathered import Document, Gathered
from muster.webhook.cluster import kinds, listings, readers, served, writes

__all__ = ["Asked", "Records", "every", "one"]

_Key: TypeAlias = tuple[str, str]  # namespace and name

DEADLINE = 10.0
"""Seconds for one request."""

Records: TypeAlias = Callable[[str, str], Sequence[Sealed]]
"""Returns the audit records about a job, by its namespace and name."""
_FORBIDDEN = 403
_TRAINJOB = kinds.KINDS["TrainJob"]


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a cluster: one connection, and the audit records that are at hand."""

    sender: transports.Sender
    records: Records = lambda _namespace, _name: ()
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)


async def one(asked: Asked, namespace: str, name: str) -> Gathered | None:
    """Return what the cluster has about one job; None when it has neither the job nor a word about one.

    Raises:
        TransportError: the API server did not answer, or refuses to show jobs.
    """
    if not kinds.JOBSET.can_exist(readers.Ref("JobSet", namespace, name)):
        return None
    access = writes.Writes(asked.sender, DEADLINE)
    trainjob = await access.get(_TRAINJOB, namespace, name)
    jobset = await access.get(kinds.JOBSET, namespace, name)
    key = namespace, name
    rest = await _rest(asked, namespace, f"{names.JOBSET_NAME_LABEL}={name}", {key})
    if trainjob is None and jobset is None and key not in rest.refused() and not asked.records(*key):
        return None
    return rest.gathered(asked, key, trainjob, jobset)


async def every(asked: Asked, namespace: str) -> list[Gathered]:
    """Return what the cluster has about all jobs of a namespace, "" for all namespaces.

    Raises:
        TransportError: the API server did not answer, or refuses to show jobs.
    """
    made = {_key(each): each for each in await _listed(asked, _TRAINJOB, namespace)}
    sets = {_key(each): each for each in await _listed(asked, kinds.JOBSET, namespace)}
    rest = await _rest(asked, namespace, names.JOBSET_NAME_LABEL, {*made, *sets})
    keys = sorted({*made, *sets, *rest.refused()})
    return [rest.gathered(asked, key, made.get(key), sets.get(key)) for key in keys]


class _Rest:
    """Pods, Events and claims of a namespace or of all, by the job that they are about.

    Args:
        unread: what may not be read.
        jobs: the jobs that there are, or that are looked for.
        pods, events, claims: what was found.
    """

    def __init__(
        self,
        unread: Sequence[str],
        jobs: AbstractSet[_Key],
        pods: Iterable[Document],
        events: Iterable[Document],
        claims: Iterable[Document],
    ) -> None:
        self._unread = unread
        self._pods: Mapping[_Key, list[Document]] = _grouped(pods, _job_of)
        self._claims: Mapping[str, list[Document]] = _grouped(claims, lambda each: each["metadata"]["namespace"])
        owners = {_key(pod): key for key, found in self._pods.items() for pod in found}
        self._events: Mapping[_Key, list[Document]] = _grouped(events, lambda each: _about(each, jobs, owners))

    def refused(self) -> set[_Key]:
        """Return the jobs of which an Event says that they were refused."""
        return {key for key, events in self._events.items() if any(map(_is_refusal, events))}

    def gathered(self, asked: Asked, key: _Key, trainjob: Document | None, jobset: Document | None) -> Gathered:
        """Return what is known about a job."""
        pods = [each for each in self._pods.get(key, ()) if _is_of(each, jobset)]
        events = [each for each in self._events.get(key, ()) if _is_after(each, trainjob or jobset)]
        return Gathered(
            *key,
            asked.now(),
            trainjob,
            jobset,
            sorted(pods, key=lambda each: (each["metadata"].get("creationTimestamp") or "", each["metadata"]["name"])),
            sorted(events, key=_moment),
            self._claims.get(key[0], ()),
            asked.records(*key),
            self._unread,
        )


async def _rest(asked: Asked, namespace: str, selector: str, jobs: AbstractSet[_Key]) -> _Rest:
    unread: list[str] = []

    async def listed(kind: served.Kind, chosen: str) -> list[dict[str, Any]]:
        try:
            return await _listed(asked, kind, namespace, chosen)
        except transports.RefusedError as error:
            if error.status != _FORBIDDEN:
                raise
            unread.append(kind.plural)
            return []

    pods, events = await listed(kinds.POD, selector), await listed(kinds.EVENT, "")
    claims = await listed(kinds.CLAIM, kinds.CLAIM.selector)
    return _Rest(tuple(unread), jobs, pods, events, claims)


async def _listed(asked: Asked, kind: served.Kind, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    return await listings.read(asked.sender, kind, namespace, DEADLINE, selector=selector, status=True)


def _grouped(documents: Iterable[Document], key: Callable[[Document], Any]) -> dict[Any, list[Document]]:
    groups: dict[Any, list[Document]] = defaultdict(list)
    for each in documents:
        groups[key(each)].append(each)
    return groups


def _key(document: Document) -> _Key:
    return document["metadata"]["namespace"], document["metadata"]["name"]


def _job_of(pod: Document) -> _Key:
    labels = pod["metadata"].get("labels") or {}
    return pod["metadata"]["namespace"], labels.get(names.JOBSET_NAME_LABEL, "")


def _about(event: Document, jobs: AbstractSet[_Key], owners: Mapping[_Key, _Key]) -> _Key:
    """Return the job that an Event is about: itself, or the job of the pod or the Kubernetes Job that it names."""
    about = event.get("involvedObject") or {}
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


def _is_of(pod: Document, jobset: Document | None) -> bool:
    """Whether a pod is of this JobSet, and not of an earlier one of the same name."""
    uid = (pod["metadata"].get("labels") or {}).get("jobset.sigs.k8s.io/jobset-uid")
    return jobset is not None and uid in {None, jobset["metadata"].get("uid")}


def _is_after(event: Document, job: Document | None) -> bool:
    """Whether an Event is about this job, and not about an earlier one of the same name."""
    return job is None or _moment(event) >= str(job["metadata"].get("creationTimestamp") or "")[:19]


def _moment(event: Document) -> str:
    """Return when an Event happened last, in a form of which texts compare as times do."""
    series = event.get("series") or {}
    found = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, found), None) or event["metadata"].get("creationTimestamp") or "")[:19]
