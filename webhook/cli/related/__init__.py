"""Beside: what other documents of the same input say about a job: objects that collide, that it names, that limit it.

A file of helm or kustomize holds a job with its ConfigMaps, Secrets, Services and quotas. The service sees the job
alone; the commands on files see them all. What a document says holds for jobs of its own namespace. Two jobs of one
name may be files for two environments, so that jobs are compared with each other within one file alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from muster.strategies.changes.changes import Changes
from muster.strategies.checks import volume_checks
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job, Kind
from muster.strategies.launches import program_kinds
from muster.webhook.admission.decisions import Decision
from muster.webhook.cli.related import capacity, collisions, inlined, missing_references, pod_networks
from muster.webhook.cli.related.related_documents import (
    ClusterQueue,
    ComputeDomain,
    ConfigMap,
    Inputs,
    NetworkPolicy,
    PersistentVolumeClaim,
    ResourceQuota,
    Secret,
    Service,
)
from muster.webhook.cluster import readers
from muster.webhook.cluster.readers import Document
from muster.webhook.kubeyaml.sources import Source

__all__ = ["Inputs", "PersistentVolumeClaim", "Told", "job_of", "look"]

_SEVERAL = 2


class Told(Struct, frozen=True):
    """What the other documents of the input tell about a job.

    Attributes:
        findings: what is found with them.
        settled: rules and fields of what is open only without them.
    """

    findings: tuple[Finding, ...] = ()
    settled: frozenset[tuple[str, str]] = frozenset()


def look(
    source: Source,
    decisions: tuple[Decision, Decision],
    cluster: readers.ClusterReader,
    inputs: Inputs,
    decide: inlined.Decide,
) -> Told:
    """Find out what the other documents say about a job; nothing about one that was read alone.

    Args:
        source: the job as it was written.
        decisions: of its mutation, and of the validation of the mutated job.
        cluster: what the decisions read.
        inputs: all documents of the input.
        decide: returns all findings about another document in the place of the job.
    """
    mutated, validated = decisions
    if any(each.rule == "core/shape" for each in mutated.findings):
        return Told()
    request, governor = mutated.request, mutated.governor
    stored, found = job_of(mutated, mutated.document), list[Finding]()
    settled = set[tuple[str, str]]()
    known = request.kind == "JobSet" or governor.runtime is not None
    if known and mutated.verdict != "skipped" and governor.owner is None:
        if len(inputs.sources) >= _SEVERAL:
            found += _check(stored, source, cluster, inputs)
        with_texts, only_without = inlined.check(job_of(mutated, source.document), source, mutated, inputs, decide)
        found += with_texts
        settled |= only_without
    said = (*mutated.findings, *validated.findings)
    if inputs.has(request.namespace, Service, ComputeDomain) and not any(each.rule == "core/shape" for each in said):
        domains = inputs.of_kind(ComputeDomain, request.namespace)
        made = {each.value.channel.resource_claim_template.name for each in domains}
        settled |= {(each.rule, each.field) for each in said if each.rule == _UNKNOWN and each.value in made}
        settled |= pod_networks.settled(stored, inputs)
    return Told(tuple(found), frozenset(settled))


_UNKNOWN = "claims/unknown-object"
"""The rule about a missing template, which the driver makes for a ComputeDomain of the input."""


def job_of(decision: Decision, document: Document) -> Job:
    """Return a document in the place of the job of a decision, with what governs that."""
    request, runtime = decision.request, decision.governor.runtime
    kind: Kind = "JobSet" if request.kind == "JobSet" else "TrainJob"
    return Job(kind, Changes(document), request.namespace, runtime, identify=program_kinds.identify)


def _check(job: Job, source: Source, cluster: readers.ClusterReader, inputs: Inputs) -> Iterator[Finding]:
    yield from collisions.check(job, source, inputs, cluster)
    yield from capacity.gangs(job, inputs)
    yield from pod_networks.addressed(job, source, inputs)
    yield from pod_networks.shared_ports(job, source, inputs)
    if inputs.has(job.namespace, PersistentVolumeClaim):
        replicated = templates.list_templates(job)
        claims = (volume.persistent_volume_claim for template in replicated for volume in template.pod.volumes)
        given = (inputs.named(PersistentVolumeClaim, job.namespace, each.claim_name) for each in claims if each)
        modes = {found[-1].name: found[-1].value.access_modes for found in given if found}
        yield from volume_checks.named(job, replicated, modes)
    if inputs.has(job.namespace, ConfigMap, Secret, PersistentVolumeClaim):
        yield from missing_references.check(job, inputs)
    if inputs.has(job.namespace, Service):
        yield from pod_networks.targets(job, inputs)
    if inputs.has(job.namespace, ResourceQuota):
        yield from capacity.quotas(job, inputs)
    if inputs.has(job.namespace, NetworkPolicy):
        yield from pod_networks.policies(job, inputs)
    if inputs.has("", ClusterQueue):
        yield from capacity.queues(job, inputs)
