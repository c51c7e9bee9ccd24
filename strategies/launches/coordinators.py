"""The coordinator: the address at which all ranks meet.

A JobSet gives its pods the DNS names `<jobset>-<replicatedJob>-<job index>-<pod index>.<subdomain>`; the subdomain is
the JobSet's name unless `spec.network.subdomain` says otherwise (jobset `pkg/controllers`, GetSubdomain).
Trainer's PET_MASTER_ADDR ignores the subdomain, which is why the address is computed here and not copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from muster.strategies.documents import names, pods, quantities
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs.jobs import Job, once
from muster.strategies.jobs.templates import find_spec
from muster.strategies.launches import topologies

__all__ = ["Coordinator", "find_coordinator", "find_port", "is_elsewhere", "is_trainers", "validate"]

_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_GENERATED_SUFFIX = "xxxxx"
_POD_SUFFIX = len("-abcde")
_MAX_LABEL = 63
_MAX_GENERATE_BASE = 58
_UNRESOLVED = "the coordinator's name would never resolve"
_OF_NOT_READY = "core/not-ready-addresses"
_NOT_READY = "pods with a readiness probe would wait for a name that appears only when they are ready"


class Coordinator(Struct, frozen=True):
    """Where rank 0 listens."""

    host: str
    port: int

    @property
    def endpoint(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"


@once
def find_coordinator(job: Job) -> Coordinator | None:
    """Return the coordinator; None when the job's name or its training container is not known yet.

    A JobSet's own `spec.coordinator` wins; else it is pod 0 of job 0 of the training replicated job. A single pod
    without a DNS name uses `localhost`.
    """
    world = job.world
    if not world or job.name is None:
        return None
    place, port = world[0], find_port(job)
    unnamed = place.job.template.spec.completion_mode == "NonIndexed" or place.job.takes_turns
    if (unnamed or job.jobset.network.enable_dns_hostnames is False) and topologies.read_topology(job).nodes == 1:
        return Coordinator("localhost", port)
    subdomain = job.jobset.network.subdomain or job.name
    replicated_job, job_index, pod_index = _chosen(job) or (place.job_name, 0, 0)
    return Coordinator(f"{job.name}-{replicated_job}-{job_index}-{pod_index}.{subdomain}", port)


def is_trainers(job: Job) -> bool:
    """Whether Trainer's PET_MASTER_ADDR, `<job>-node-0-0.<job>`, is the name of pod 0 (`plugins/torch`)."""
    subdomain = job.jobset.network.subdomain or job.name
    return job.container is None or (job.container.job_name == names.CONTAINER_NODE and subdomain == job.name)


def _chosen(job: Job) -> tuple[str, int, int] | None:
    """Return (replicated job, job index, pod index) of a JobSet's own `spec.coordinator`."""
    chosen = job.jobset.coordinator if job.kind == "JobSet" else None
    return (chosen.replicated_job, chosen.job_index, chosen.pod_index) if chosen else None


def find_port(job: Job) -> int:
    """Return the port that rank 0 names, else that of any other member."""
    every = map(_named_port, job.world)
    return next((port for port in every if port is not None), names.DEFAULT_PORT)


def _named_port(place: pods.Place) -> int | None:
    for name in (names.PET_MASTER_PORT, names.MASTER_PORT):
        if (number := quantities.whole(place.container.env_value(name))) is not None:
            return number
    return None


def is_elsewhere(job: Job) -> bool:
    """Whether a JobSet's own `spec.coordinator` names another pod than that with rank 0."""
    chosen, world = _chosen(job), job.world
    return chosen is not None and bool(world) and chosen != (world[0].job_name, 0, 0)


def validate(job: Job, nodes: int) -> Iterator[Finding]:
    """Check that the coordinator's name can be a DNS name and that it will resolve before the pods are ready.

    Args:
        job: the job.
        nodes: pods of the training job; the name of the last one is the longest.
    """
    yield from _name_findings(job, nodes)
    if nodes > 1:
        yield from _network_findings(job)
        yield from _coordinator_findings(job)


def _name_findings(job: Job, nodes: int) -> Iterator[Finding]:
    field, name, base = "metadata.name", job.name, job.metadata.generate_name
    if name is None:
        field, name = "metadata.generateName", base[:_MAX_GENERATE_BASE] + _GENERATED_SUFFIX
    written = job.name or base
    if not written:
        yield error("metadata.name", None, "a name or generateName is required", rule="core/dns-name")
    elif not re.fullmatch(_LABEL, name):
        message = "cannot be part of a DNS name; use lower case letters, digits and -, starting with a letter"
        yield error(field, written, message, rule="core/dns-name")
    else:
        length, longest = max(_pod_names(job, name, nodes), default=(0, ""))
        if length > _MAX_LABEL:
            message = (
                f"is {length - _MAX_LABEL} characters too long: JobSet refuses pod names of more than {_MAX_LABEL} "
                f"characters, and those of replicated job {longest} would be longer; shorten it"
            )
            yield error(field, written, message, rule="core/dns-name")


def _pod_names(job: Job, name: str, nodes: int) -> Iterator[tuple[int, str]]:
    """Yield the length of the longest pod name of each replicated job, and that job's name.

    JobSet checks them all (`pkg/webhooks/jobset_webhook.go` ValidateCreate); an initializer's are longer than `node`'s.
    """
    document, path = find_spec(job)
    training = job.container.job_name if job.container else ""
    for place in pods.places(document, path):
        spec = place.job.template.spec
        pods_each = spec.completions or spec.parallelism or 1
        if job.kind == "TrainJob" and place.job_name == training:
            pods_each = nodes
        longest = f"{name}-{place.job_name}-{place.job.jobs - 1}"
        indexed = spec.completion_mode != "NonIndexed"  # the names of other pods are cut where they are too long
        yield len(f"{longest}-{max(pods_each - 1, 0)}") + _POD_SUFFIX if indexed else len(longest), place.job_name


def _network_findings(job: Job) -> Iterator[Finding]:
    network = job.jobset.network
    for member, value, find, rule, effect in (
        ("enableDNSHostnames", network.enable_dns_hostnames, error, "core/dns-hostnames", _UNRESOLVED),
        ("publishNotReadyAddresses", network.publish_not_ready_addresses, warning, _OF_NOT_READY, _NOT_READY),
    ):
        if value is not False:
            continue
        if job.kind == "JobSet":
            yield find(f"spec.network.{member}", False, f"{effect}; set it to true", rule=rule)
        elif job.runtime is not None:
            message = f"the runtime's network.{member} is false: {effect}; set it to true"
            yield find("spec.runtimeRef.name", job.runtime.name, message, rule=rule)


def _coordinator_findings(job: Job) -> Iterator[Finding]:
    chosen, members = _chosen(job), [place.job_name for place in job.world]
    if chosen is None or not is_elsewhere(job) or job.runtime is None:
        return  # without a framework it may be the head of a program that has no ranks, as Pathways is
    annotated = job.annotation(names.RENDEZVOUS_ANNOTATION)
    backends = {place.container.env_value(names.PET_RDZV_BACKEND) for place in job.world}
    if chosen[0] not in members or not (backends == {"c10d"} or (annotated is not None and annotated[0] == "c10d")):
        named = " or ".join(dict.fromkeys(members))
        message = (
            f"static ranks meet at rank 0, which is pod 0 of {members[0]}, and would wait for ever at this pod; "
            f"name pod 0, or any pod of {named} with the annotation {names.RENDEZVOUS_ANNOTATION}: c10d"
        )
        yield warning("spec.coordinator", "-".join(map(str, chosen)), message, rule="core/coordinator")
