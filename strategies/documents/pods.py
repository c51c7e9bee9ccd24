"""Pods inside a JobSet: where the training container is, and what its env says.

The same code reads a JobSet (`spec`) and the template inside a runtime (`spec.template.spec`): both are a JobSetSpec
(jobset `api/jobset/v1alpha2/jobset_types.go`).

Mounts: which volume of a pod holds a path, and whether anything can be written there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.strategies.documents import decoding, model, names
from muster.strategies.documents.model import Volume, VolumeMount
from muster.strategies.documents.paths import Path

__all__ = [
    "CLAIM_SOURCES",
    "Place",
    "holding",
    "holds",
    "is_shared",
    "place",
    "places",
    "trainer",
    "volume",
    "why_fixed",
]


Document = Mapping[str, Any]
CLAIM_SOURCES = {"resourceClaimName": "ResourceClaim", "resourceClaimTemplateName": "ResourceClaimTemplate"}
"""Kinds of objects by the member of a pod's `resourceClaims` that names one."""


class Place(Struct, frozen=True, dict=True):
    """One container of one replicated job.

    Attributes:
        raw_job: the replicated job as the document holds it.
        raw: the container as the document holds it.
        job_path: where the replicated job is.
        path: where the container is.
        beside: the place of another container of the same pod, which has read the replicated job.
    """

    raw_job: Document
    raw: Document
    job_path: Path
    path: Path
    beside: Place | None = None

    @functools.cached_property
    def job(self) -> model.ReplicatedJob:
        """The replicated job."""
        return decoding.read(self.raw_job, model.ReplicatedJob) if self.beside is None else self.beside.job

    @functools.cached_property
    def pod(self) -> model.PodSpec:
        """The pod spec around the container."""
        return self.job.pod

    @functools.cached_property
    def container(self) -> model.Container:
        """The container."""
        return self.pod.containers[int(self.path[-1])]

    @property
    def user(self) -> int | None:
        """Number of the user as whom the container runs, None where it is the image's."""
        return self.container.security_context.over(self.pod.security_context).run_as_user

    @property
    def job_name(self) -> str:
        """Name of the replicated job, `node` in Trainer's runtimes."""
        return self.job.name

    @property
    def raw_pod(self) -> Document:
        """The pod spec around the container, as the document holds it."""
        spec: Document = self.raw_job["template"]["spec"]["template"]["spec"]
        return spec

    @property
    def pod_path(self) -> Path:
        """Where the pod spec is."""
        return (*self.job_path, "template", "spec", "template", "spec")


def places(document: Document, spec_path: tuple[str, ...]) -> Iterator[Place]:
    """Yield every container of every replicated job of the JobSetSpec at `spec_path`."""
    for index, job in enumerate(_dig(document, *spec_path).get("replicatedJobs") or ()):
        job_path: Path = (*spec_path, "replicatedJobs", index)
        first: Place | None = None
        for position, container in enumerate(_containers(job)):
            path = (*job_path, "template", "spec", "template", "spec", "containers", position)
            each = Place(job, container, job_path, path, first)
            first = first or each
            yield each


def place(document: Document, job_path: Path, position: int) -> Place:
    """Return container `position` of the replicated job at `job_path`."""
    job: Any = document
    for step in job_path:
        job = job[step]
    path = (*job_path, "template", "spec", "template", "spec", "containers", position)
    return Place(job, _containers(job)[position], job_path, path)


def trainer(document: Document, spec_path: tuple[str, ...], first: str = "") -> Place | None:
    """Find the training container.

    Trainer's own rule first: container `node` of the job labelled `trainjob-ancestor-step: trainer`. For a JobSet
    that Trainer did not make: the job with role `trainer`, else a job named `first`, `node` or `trainer`, else the only
    job; and there container `node`, else the first one.
    """
    heads: dict[Path, Place] = {}
    for each in places(document, spec_path):
        heads.setdefault(each.job_path, each)
    for wanted in (_is_ancestor, _is_role, lambda job: first and job.name == first, _is_named):
        for found in heads.values():
            if wanted(found.job):
                return _node(found)
    return _node(*heads.values()) if len(heads) == 1 else None


def _is_ancestor(job: model.ReplicatedJob) -> bool:
    return job.labels.get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER


def _is_role(job: model.ReplicatedJob) -> bool:
    return job.labels.get(names.ROLE_LABEL) == "trainer"


def _is_named(job: model.ReplicatedJob) -> bool:
    return job.name in (names.CONTAINER_NODE, "trainer")


def _node(head: Place) -> Place | None:
    """Return container `node` beside the first one of a replicated job; in Trainer's own job no other counts."""
    named = [position for position, each in enumerate(head.pod.containers) if each.name == names.CONTAINER_NODE]
    if not named:
        return None if _is_ancestor(head.job) else head
    return Place(head.raw_job, _containers(head.raw_job)[named[0]], head.job_path, (*head.path[:-1], named[0]))


def _containers(job: Document) -> Sequence[Document]:
    pod = ((job.get("template") or {}).get("spec") or {}).get("template") or {}
    containers: Sequence[Document] = (pod.get("spec") or {}).get("containers") or ()
    return containers


def _dig(document: Document, *members: str) -> Document:
    node: Document = document
    for member in members:
        node = node.get(member) or {}
    return node


_SHARED = frozenset({"persistentVolumeClaim", "nfs", "cephfs", "glusterfs", "azureFile", "quobyte"})
_DRIVERS = frozenset({"gcsfuse.csi.storage.gke.io", "file.csi.azure.com", "blob.csi.azure.com", "nfs.csi.k8s.io"})
_FIXED = frozenset({"configMap", "secret", "projected", "downwardAPI", "image"})


def holding(path: str, mounts: Sequence[VolumeMount]) -> VolumeMount | None:
    """Return the mount with the longest path that holds a path, None where it is in the container's own file system."""
    found = [each for each in mounts if each.mount_path and holds(each.mount_path, path)]
    return max(found, key=lambda each: len(each.mount_path), default=None)


def holds(mount: str, path: str) -> bool:
    """Whether a path is a folder or in it."""
    return path == mount.rstrip("/") or path.startswith(f"{mount.rstrip('/')}/")


def volume(mount: VolumeMount, volumes: Iterable[Volume]) -> Volume:
    """Return the volume of a mount; one without a source where the pod has none of this name."""
    return next((each for each in volumes if each.name == mount.name), Volume())


def is_shared(mount: VolumeMount, volumes: Iterable[Volume]) -> bool:
    """Whether all pods with a mount see the same files there; a path that differs from pod to pod is not shared."""
    found = volume(mount, volumes)
    known = found.csi is not None and found.csi.driver in _DRIVERS
    return "$(" not in mount.sub_path_expr and (known or not _SHARED.isdisjoint(found.sources))


def why_fixed(mount: VolumeMount, volumes: Iterable[Volume]) -> str:
    """Return why nothing can be written into a volume, "" where something may be."""
    if mount.read_only:
        return "is mounted read-only"
    for kind, source in volume(mount, volumes).sources.items():
        if kind in _FIXED:
            return f"is of kind {kind}, which is always read-only"
        if getattr(source, "read_only", False):
            return "is read-only"
    return ""
