"""The coordinator: the one address at which all ranks meet.

A JobSet gives its pods the DNS names `<jobset>-<replicatedJob>-<job index>-<pod index>.<subdomain>`; the subdomain is
the JobSet's name unless `spec.network.subdomain` says otherwise (jobset v0.12.0 `pkg/controllers/jobset_controller.go`).
Trainer's PET_MASTER_ADDR ignores the subdomain, which is why the address is computed here and not copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from strategies import names
from strategies.documents import pods
from strategies.findings import Finding, error, warning
from strategies.jobs import Job

__all__ = ["Coordinator", "of", "validate"]

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_GENERATED_SUFFIX = "xxxxx"
_POD_SUFFIX = len("-abcde")
_MAX_LABEL = 63
_MAX_GENERATE_BASE = 58


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Where rank 0 listens."""

    host: str
    port: int

    @property
    def endpoint(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"


def of(job: Job) -> Coordinator | None:
    """Return the coordinator; None when the job's name or its training container is not known yet.

    A JobSet's own `spec.coordinator` wins; else it is pod 0 of job 0 of the training replicated job.
    """
    place = job.container
    if place is None or job.name is None:
        return None
    subdomain = job.network.get("subdomain") or job.name
    replicated_job, job_index, pod_index = place.job_name, 0, 0
    chosen = (job.document.get("spec") or {}).get("coordinator") if job.kind == "JobSet" else None
    if chosen:
        replicated_job = chosen.get("replicatedJob") or replicated_job
        job_index, pod_index = chosen.get("jobIndex") or 0, chosen.get("podIndex") or 0
    return Coordinator(f"{job.name}-{replicated_job}-{job_index}-{pod_index}.{subdomain}", _port(place.container))


def _port(container: pods.Container) -> int:
    for name in (names.PET_MASTER_PORT, names.MASTER_PORT):
        written = pods.env_value(container.get("env"), name)
        if written is not None and written.isdecimal():
            return int(written)
    return names.DEFAULT_PORT


def validate(job: Job, nodes: int) -> Iterator[Finding]:
    """Check that the coordinator's name can be a DNS name and that it will resolve before the pods are ready.

    Args:
        job: the job.
        nodes: pods of the training job; the name of the last one is the longest.
    """
    yield from _name_findings(job, nodes)
    if nodes > 1:
        yield from _network_findings(job)


def _name_findings(job: Job, nodes: int) -> Iterator[Finding]:
    metadata = job.document.get("metadata") or {}
    place = job.container
    field, name = "metadata.name", job.name
    if name is None:
        field, name = "metadata.generateName", str(metadata.get("generateName") or "")[:_MAX_GENERATE_BASE]
        name += _GENERATED_SUFFIX
    written = metadata.get("name") or metadata.get("generateName")
    if not written:
        yield error("metadata.name", None, "a name or generateName is required", rule="core/dns-name")
    elif not _LABEL.fullmatch(name):
        message = "cannot be part of a DNS name; use lower case letters, digits and -, starting with a letter"
        yield error(field, written, message, rule="core/dns-name")
    elif place is not None:
        longest = len(f"{name}-{place.job_name}-0-{max(nodes - 1, 0)}") + _POD_SUFFIX
        if longest > _MAX_LABEL:
            message = (
                f"is {longest - _MAX_LABEL} characters too long: pod names made from it exceed {_MAX_LABEL}; shorten it"
            )
            yield error(field, written, message, rule="core/dns-name")


def _network_findings(job: Job) -> Iterator[Finding]:
    prefix = "spec.network" if job.kind == "JobSet" else "spec.runtimeRef"
    whose = "" if job.kind == "JobSet" else "the runtime's network."
    if job.network.get("enableDNSHostnames") is False:
        message = f"{whose}enableDNSHostnames is false, so the coordinator's name never resolves; set it to true"
        yield error(prefix, job.network.get("enableDNSHostnames"), message, rule="core/dns-hostnames")
    if job.network.get("publishNotReadyAddresses") is False:
        message = (
            f"{whose}publishNotReadyAddresses is false: pods with a readiness probe wait for a name that appears only "
            "when they are ready; set it to true"
        )
        yield warning(prefix, False, message, rule="core/not-ready-addresses")
