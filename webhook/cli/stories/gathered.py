"""What a cluster has about one job, and the questions that a story asks of it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.audit.record_schema import Sealed
from muster.strategies.documents import names

__all__ = ["Document", "Gathered", "condition", "containers", "seconds_since"]

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The objects of one job, as the API server gave them at one moment.

    Attributes:
        namespace, name: of the job; its JobSet has the same name.
        now: the moment, with a time zone.
        trainjob, jobset: None where there is none.
        pods: the pods of the JobSet, oldest first.
        events: the Events about the job, its Kubernetes Jobs and its pods, oldest first.
        claims: the shared ResourceClaims of the namespace that Muster made.
        records: audit records about the job, oldest first.
        unread: what the reader of the cluster may not read, in words.
    """

    namespace: str
    name: str
    now: datetime.datetime
    trainjob: Document | None = None
    jobset: Document | None = None
    pods: Sequence[Document] = ()
    events: Sequence[Document] = ()
    claims: Sequence[Document] = ()
    records: Sequence[Sealed] = ()
    unread: Sequence[str] = ()

    @property
    def job(self) -> Document | None:
        """What the user made: the TrainJob, else the JobSet."""
        return self.trainjob or self.jobset

    @property
    def kind(self) -> str:
        """`TrainJob` or `JobSet`; of a job that is not there, the kind that its Events name."""
        if self.trainjob is not None or self.jobset is not None:
            return "TrainJob" if self.trainjob is not None else "JobSet"
        return next((event["involvedObject"]["kind"] for event in self.about("TrainJob", "JobSet")), "TrainJob")

    def about(self, *kinds: str) -> Iterator[Document]:
        """Yield the Events about objects of these kinds, the newest first."""
        return (each for each in reversed(self.events) if each["involvedObject"].get("kind") in kinds)

    def live_pods(self) -> list[Document]:
        """Return the pods that have not ended."""
        return [each for each in self.pods if _phase(each) not in {"Succeeded", "Failed"}]

    def is_on(self, kind: str) -> bool:
        """Whether a condition of the TrainJob or of the JobSet is true."""
        return condition(self.trainjob, kind) is not None or condition(self.jobset, kind) is not None


def condition(document: Document | None, kind: str, status: str = "True") -> Document | None:
    """Return the condition of an object, if it has this status."""
    found = ((document or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in found if (each.get("type"), each.get("status")) == (kind, status)), None)


def containers(pod: Document) -> Iterator[Document]:
    """Yield the statuses of the containers of a pod, initializers first."""
    status = pod.get("status") or {}
    for key in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(key) or ()


def seconds_since(moment: object, now: datetime.datetime) -> float:
    """Return the seconds from an RFC 3339 time to now; 0 for a time in the future, or what is none."""
    try:
        then = datetime.datetime.fromisoformat(str(moment))
        return max((now - then).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0


def _phase(pod: Document) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_gated(pod: Document) -> bool:
    """Whether a pod has Muster's gate, and so no seat yet."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(each.get("name") == names.SEAT_GATE for each in gates)
