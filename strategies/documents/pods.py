"""Pods inside a JobSet: where the training container is, and what its env says.

The same code reads a JobSet (`spec`) and the template inside a runtime (`spec.template.spec`): both are a JobSetSpec
(jobset `api/jobset/v1alpha2/jobset_types.go`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from msgspec import Struct

from muster.strategies.documents import decoding, model, names
from muster.strategies.documents.paths import Path

__all__ = [
    "CLAIM_SOURCES",
    "Container",
    "EnvVar",
    "Place",
    "ResourceRequirements",
    "at_once",
    "env_value",
    "find_env",
    "labels",
    "place",
    "places",
    "replicas",
    "takes_turns",
    "trainer",
]

Document = Mapping[str, Any]
CLAIM_SOURCES = {"resourceClaimName": "ResourceClaim", "resourceClaimTemplateName": "ResourceClaimTemplate"}
"""Kinds of objects by the member of a pod's `resourceClaims` that names one."""


class EnvVar(TypedDict, total=False):
    """One entry of a container's `env`: a value, or a reference (`valueFrom`)."""

    name: str
    value: str
    valueFrom: dict[str, Any]


class ResourceRequirements(TypedDict, total=False):
    """`resources`: quantities by resource name, and names of pod-level claims."""

    limits: dict[str, str | int]
    requests: dict[str, str | int]
    claims: list[dict[str, str]]


class Container(TypedDict, total=False):
    """A container: the members that Muster reads."""

    name: str
    image: str
    command: list[str]
    args: list[str]
    env: list[EnvVar]
    ports: list[dict[str, Any]]
    resources: ResourceRequirements
    securityContext: dict[str, Any]


class Place(Struct, frozen=True, dict=True):
    """One container of one replicated job.

    Attributes:
        raw_job: the replicated job as the document holds it.
        raw: the container as the document holds it.
        job_path: where the replicated job is.
        path: where the container is.
    """

    raw_job: Document
    raw: Container
    job_path: Path
    path: Path

    @functools.cached_property
    def job(self) -> model.ReplicatedJob:
        """The replicated job."""
        return decoding.read(self.raw_job, model.ReplicatedJob)

    @property
    def pod(self) -> model.PodSpec:
        """The pod spec around the container."""
        return self.job.pod

    @property
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
        for position, container in enumerate(_containers(job)):
            path = (*job_path, "template", "spec", "template", "spec", "containers", position)
            yield Place(job, container, job_path, path)


def place(document: Document, job_path: Path, position: int) -> Place:
    """Return container `position` of the replicated job at `job_path`."""
    job: Any = document
    for step in job_path:
        job = job[step]
    path = (*job_path, "template", "spec", "template", "spec", "containers", position)
    return Place(job, _containers(job)[position], job_path, path)


def replicas(job: Document) -> int:
    """Return the number of Jobs of a replicated job; JobSet's default is 1."""
    written = job.get("replicas")
    return 1 if written is None else max(int(written), 0)


def at_once(job: Document) -> int:
    """Return the pods of each of its Jobs that run at the same time (kubernetes `pkg/controller/job`, wantActive)."""
    spec = (job.get("template") or {}).get("spec") or {}
    parallel = spec.get("parallelism")
    running = 1 if parallel is None else max(int(parallel), 0)
    completions = spec.get("completions")
    return running if completions is None else min(running, max(int(completions), 0))


def takes_turns(job: Document) -> bool:
    """Whether more pods have to complete than run at once, so that some start only when others have ended."""
    completions = ((job.get("template") or {}).get("spec") or {}).get("completions")
    return completions is not None and 0 < at_once(job) < int(completions)


def trainer(document: Document, spec_path: tuple[str, ...], first: str = "") -> Place | None:
    """Find the training container.

    Trainer's own rule first: container `node` of the job labelled `trainjob-ancestor-step: trainer`. For a JobSet
    that Trainer did not make: the job with role `trainer`, else a job named `first`, `node` or `trainer`, else the only
    job; and there container `node`, else the first one.
    """
    jobs = _dig(document, *spec_path).get("replicatedJobs") or ()
    for wanted in (_is_ancestor, _is_role, lambda job: first and job.get("name") == first, _is_named):
        for index, job in enumerate(jobs):
            if wanted(job) and _containers(job):
                return _place(job, (*spec_path, "replicatedJobs", index))
    filled = [(index, job) for index, job in enumerate(jobs) if _containers(job)]
    return _place(filled[0][1], (*spec_path, "replicatedJobs", filled[0][0])) if len(filled) == 1 else None


def labels(job: Document) -> Document:
    """Return the labels of a replicated job's Job template, where Trainer puts its ancestor label."""
    return ((job.get("template") or {}).get("metadata") or {}).get("labels") or {}


def find_env(env: Sequence[EnvVar] | None, name: str) -> EnvVar | None:
    """Return the last entry called `name`: later entries win in Kubernetes."""
    if not env or name not in map(_name, env):  # most are asked for and missing
        return None
    return next((entry for entry in reversed(env) if entry.get("name") == name), None)


_name = operator.methodcaller("get", "name")


def env_value(env: Sequence[EnvVar] | None, name: str) -> str | None:
    """Return the plain value of env `name`; None when it is missing or comes from a reference."""
    entry = find_env(env, name)
    return None if entry is None or entry.get("valueFrom") is not None else str(entry.get("value") or "")


def _is_ancestor(job: Document) -> bool:
    return labels(job).get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER


def _is_role(job: Document) -> bool:
    return labels(job).get(names.ROLE_LABEL) == "trainer"


def _is_named(job: Document) -> bool:
    return job.get("name") in (names.CONTAINER_NODE, "trainer")


def _place(job: Document, job_path: Path) -> Place | None:
    containers = _containers(job)
    named = [position for position, each in enumerate(containers) if each.get("name") == names.CONTAINER_NODE]
    if not named and _is_ancestor(job):
        return None
    position = named[0] if named else 0
    path = (*job_path, "template", "spec", "template", "spec", "containers", position)
    return Place(job, containers[position], job_path, path)


def _containers(job: Document) -> Sequence[Container]:
    pod = ((job.get("template") or {}).get("spec") or {}).get("template") or {}
    containers: Sequence[Container] = (pod.get("spec") or {}).get("containers") or ()
    return containers


def _dig(document: Document, *members: str) -> Document:
    node: Document = document
    for member in members:
        node = node.get(member) or {}
    return node
