"""The parts of pods, JobSets, claims and namespaces that the controllers use, as small values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from muster.strategies.documents import model, names
from muster.webhook.cluster import kinds
from muster.webhook.cluster.readers import Document

__all__ = [
    "PROFILES_ANNOTATION",
    "JobSet",
    "Managed",
    "Metadata",
    "Namespace",
    "Object",
    "Owner",
    "Pod",
    "decoded",
    "is_ours",
]

PROFILES_ANNOTATION = "muster.dev/profiles"
"""A namespace's annotation: comma-separated names of profiles whose objects are made before a job asks for them."""

Kind = Literal["ResourceClaim", "ResourceClaimTemplate"]
_TRACKED = "batch.kubernetes.io/job-tracking"  # finalizer of pods that their Kubernetes Job has not counted yet
_ENDED = frozenset({"Succeeded", "Failed"})


class _Part(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of an object as the API server sends it: the members that the controllers read."""


class Owner(_Part, frozen=True):
    """An object that owns another one."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(_Part, frozen=True):
    """`metadata` of an object; times are RFC 3339 in UTC, "" where there is none."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Owner, ...] = ()

    @property
    def is_of_job(self) -> bool:
        """Whether a Kubernetes Job made the object."""
        return self.owner("Job") is not None

    def is_known_by(self, uid: str) -> bool:
        """Whether a uid is that of the object, or of the TrainJob from which Trainer made it."""
        owner = self.owner("TrainJob")
        return uid == self.uid or (owner is not None and uid == owner.uid)

    def owner(self, kind: str) -> Owner | None:
        """Return the controller that made the object, if it is of this kind."""
        return next((each for each in self.owner_references if each.controller and each.kind == kind), None)


class _Spec(model.PodSpec, frozen=True):
    """`spec` of a pod, or of a JobSet."""

    replicated_jobs: tuple[model.ReplicatedJob, ...] = ()


class _Condition(_Part, frozen=True):
    type: str = ""
    status: str = ""


class _Device(_Part, frozen=True):
    pool: str
    device: str


class _Devices(_Part, frozen=True):
    results: tuple[_Device, ...] = ()


class _Allocation(_Part, frozen=True):
    devices: _Devices = _Devices()


class _Status(_Part, frozen=True):
    """`status` of a pod, of a JobSet, or of a claim."""

    phase: str = "Pending"
    terminal_state: str = ""
    restarts: int = 0
    conditions: tuple[_Condition, ...] = ()
    allocation: _Allocation | None = None
    reserved_for: tuple[model.Anything, ...] = ()


class Object(_Part, frozen=True):
    """A pod, a JobSet, a claim, a template or a namespace."""

    metadata: Metadata
    kind: str = ""
    spec: _Spec = _Spec()
    status: _Status = _Status()


def decoded(document: Document) -> Object:
    """Return what the controllers read of an object.

    Raises:
        ValidationError: a member has another type than Kubernetes defines.
    """
    return msgspec.convert(document, Object)


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
        found = decoded(document)
        metadata = found.metadata
        return cls(
            metadata.namespace,
            metadata.name,
            metadata.uid,
            metadata.labels.get(names.PROFILE_LABEL, ""),
            metadata.labels.get(names.JOBSET_NAME_LABEL, ""),
            metadata.creation_timestamp,
            tuple(gate.name for gate in found.spec.scheduling_gates),
            _claims(found.spec),
            _templates(found.spec),
            found.status.phase,
            bool(metadata.deletion_timestamp),
            metadata.is_of_job and _TRACKED not in metadata.finalizers,
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
        found = decoded(document)
        jobs = found.spec.replicated_jobs
        templates = [each.template.spec.template for each in jobs]
        sizes: Counter[str] = Counter()
        for job, template in zip(jobs, templates, strict=True):
            sizes.update(dict.fromkeys(_claims(template.spec), _pods(job)))
        ended = any(each.type in {"Completed", "Failed"} and each.status == "True" for each in found.status.conditions)
        return cls(
            found.metadata.namespace,
            found.metadata.name,
            found.metadata.uid,
            not (ended or found.status.terminal_state),
            frozenset(each.metadata.labels.get(names.PROFILE_LABEL, "") for each in templates) - {""},
            dict(sizes),
            frozenset(name for each in templates for name in _templates(each.spec)),
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
        found = decoded(document)
        metadata = found.metadata
        return cls(
            "ResourceClaim" if found.kind == "ResourceClaim" else "ResourceClaimTemplate",
            metadata.namespace,
            metadata.name,
            metadata.uid,
            metadata.resource_version,
            metadata.labels.get(names.PROFILE_LABEL, ""),
            metadata.annotations.get(names.SPEC_HASH_ANNOTATION, ""),
            metadata.annotations.get(names.SEATS_ANNOTATION, ""),
            bool(found.status.allocation or found.status.reserved_for),
            bool(metadata.deletion_timestamp),
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
        metadata = decoded(document).metadata
        asked = metadata.annotations.get(PROFILES_ANNOTATION, "").split(",")
        return cls(metadata.name, frozenset(map(str.strip, asked)) - {""}, bool(metadata.deletion_timestamp))


def is_ours(document: Document) -> bool:
    """Whether the controllers made a claim or template; they never change or delete any other."""
    labels = decoded(document).metadata.labels
    return labels.get(kinds.MANAGED_LABEL) == kinds.MANAGER and names.PROFILE_LABEL in labels


def _claims(spec: model.PodSpec) -> tuple[str, ...]:
    return tuple(sorted({each.resource_claim_name for each in spec.resource_claims} - {""}))


def _templates(spec: model.PodSpec) -> tuple[str, ...]:
    return tuple(sorted({each.resource_claim_template_name for each in spec.resource_claims} - {""}))


def _pods(job: model.ReplicatedJob) -> int:
    """Return how many pods of a replicated job run at the same time."""
    spec, replicas = job.template.spec, 1 if job.replicas is None else job.replicas
    parallel = 1 if spec.parallelism is None else spec.parallelism
    return replicas * (parallel if spec.completions is None else min(parallel, spec.completions))
