"""The parts of pods, JobSets, claims and namespaces that the controllers use, as small values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from muster.strategies.documents import names
from muster.webhook.cluster import kinds

__all__ = [
    "PROFILES_ANNOTATION",
    "JobSet",
    "Managed",
    "Namespace",
    "Pod",
    "is_ours",
]

PROFILES_ANNOTATION = "muster.dev/profiles"
"""A namespace's annotation: comma-separated names of profiles whose objects are made before a job asks for them."""

Document = Mapping[str, Any]
Kind = Literal["ResourceClaim", "ResourceClaimTemplate"]
_TRACKED = "batch.kubernetes.io/job-tracking"  # finalizer of pods that their Kubernetes Job has not counted yet
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod with the label of a profile.

    Attributes:
        profile: value of the label.
        job: name of its JobSet, "" when it has none.
        created: creation time, RFC 3339 in UTC, so that texts compare as times do.
        gates: names of its scheduling gates.
        claims: names of the ResourceClaims in its spec, sorted; generated claims are not among them.
        templates: names of the ResourceClaimTemplates in its spec.
        phase: the phase in its status.
        deleting: whether it is being deleted.
        counted: whether a Kubernetes Job made it and, if it has ended, has counted that.
    """

    namespace: str
    name: str
    uid: str
    profile: str = ""
    job: str = ""
    created: str = ""
    gates: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    phase: str = "Pending"
    deleting: bool = False
    counted: bool = False

    @classmethod
    def from_document(cls, document: Document) -> Pod:
        """Make a view of a pod."""
        metadata, spec = document["metadata"], document.get("spec") or {}
        labels = metadata.get("labels") or {}
        return cls(
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            labels.get(names.PROFILE_LABEL, ""),
            labels.get(names.JOBSET_NAME_LABEL, ""),
            metadata.get("creationTimestamp") or "",
            tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
            _claims(spec, "resourceClaimName"),
            _claims(spec, "resourceClaimTemplateName"),
            (document.get("status") or {}).get("phase") or "Pending",
            bool(metadata.get("deletionTimestamp")),
            _is_counted(metadata),
        )

    @property
    def ended(self) -> bool:
        """Whether its containers have ended and will not run again."""
        return self.phase in _ENDED

    @property
    def gated(self) -> bool:
        """Whether it waits for a seat."""
        return names.SEAT_GATE in self.gates


@dataclass(frozen=True, slots=True)
class JobSet:
    """One JobSet of which some pods use a profile.

    Attributes:
        live: whether it has neither completed nor failed.
        profiles: names of the profiles that its pods use.
        sizes: number of pods that share a claim when all of them run, by name of the claim.
        templates: names of the ResourceClaimTemplates of its pods.
    """

    namespace: str
    name: str
    uid: str
    live: bool
    profiles: frozenset[str]
    sizes: Mapping[str, int]
    templates: frozenset[str]

    @classmethod
    def from_document(cls, document: Document) -> JobSet:
        """Make a view of a JobSet."""
        metadata, status = document["metadata"], document.get("status") or {}
        profiles: set[str] = set()
        templates: set[str] = set()
        sizes: dict[str, int] = {}
        for count, pod in _pod_templates(document.get("spec") or {}):
            profile = ((pod.get("metadata") or {}).get("labels") or {}).get(names.PROFILE_LABEL)
            if profile:
                profiles.add(profile)
            spec = pod.get("spec") or {}
            templates.update(_claims(spec, "resourceClaimTemplateName"))
            for claim in _claims(spec, "resourceClaimName"):
                sizes[claim] = sizes.get(claim, 0) + count
        ended = status.get("terminalState") or any(
            each.get("type") in {"Completed", "Failed"} and each.get("status") == "True"
            for each in status.get("conditions") or ()
        )
        return cls(
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            not ended,
            frozenset(profiles),
            sizes,
            frozenset(templates),
        )


@dataclass(frozen=True, slots=True)
class Managed:
    """A ResourceClaim or ResourceClaimTemplate that Muster made.

    Attributes:
        version: its resourceVersion.
        profile: name of the profile that it was made from.
        hash: hash of the spec that the profile gave it.
        seats: the annotation, "" when there is none.
        allocated: whether it has a device, or is reserved for pods.
        deleting: whether it is being deleted.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: str
    profile: str
    hash: str = ""
    seats: str = ""
    allocated: bool = False
    deleting: bool = False

    @classmethod
    def from_document(cls, document: Document) -> Managed:
        """Make a view of a claim or a template."""
        metadata, status = document["metadata"], document.get("status") or {}
        annotations = metadata.get("annotations") or {}
        return cls(
            document["kind"],
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            metadata["resourceVersion"],
            (metadata.get("labels") or {}).get(names.PROFILE_LABEL, ""),
            annotations.get(names.SPEC_HASH_ANNOTATION, ""),
            annotations.get(names.SEATS_ANNOTATION, ""),
            bool(status.get("allocation") or status.get("reservedFor")),
            bool(metadata.get("deletionTimestamp")),
        )


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace: the profiles that it asks for in advance, and whether it is being deleted."""

    name: str
    profiles: frozenset[str]
    deleting: bool

    @classmethod
    def from_document(cls, document: Document) -> Namespace:
        """Make a view of a namespace."""
        metadata = document["metadata"]
        asked = (metadata.get("annotations") or {}).get(PROFILES_ANNOTATION) or ""
        profiles = frozenset(name for part in asked.split(",") if (name := part.strip()))
        return cls(metadata["name"], profiles, bool(metadata.get("deletionTimestamp")))


def is_ours(document: Document) -> bool:
    """Whether the controllers made a claim or template; they never change or delete any other."""
    labels = document["metadata"].get("labels") or {}
    return labels.get(kinds.MANAGED_LABEL) == kinds.MANAGER and names.PROFILE_LABEL in labels


def _is_counted(metadata: Document) -> bool:
    made = any(each.get("controller") and each["kind"] == "Job" for each in metadata.get("ownerReferences") or ())
    return made and _TRACKED not in (metadata.get("finalizers") or ())


def _claims(spec: Document, key: str) -> tuple[str, ...]:
    return tuple(sorted({each[key] for each in spec.get("resourceClaims") or () if each.get(key)}))


def _pod_templates(spec: Document) -> Iterator[tuple[int, Document]]:
    """Yield the pod template of each replicated job, and how many pods of it run at the same time."""
    for replicated in spec.get("replicatedJobs") or ():
        job = (replicated.get("template") or {}).get("spec") or {}
        parallel = job.get("parallelism", 1)
        pods = min(parallel, job["completions"]) if job.get("completions") is not None else parallel
        yield replicated.get("replicas", 1) * pods, job.get("template") or {}
