"""Beside: what other documents of the same input say about a job: objects that collide, that it names, that limit it.

A file of helm or kustomize holds a job with its ConfigMaps, Secrets, Services and quotas. The service sees the job
alone; the commands on files see them all. What a document says holds for jobs of its own namespace. Two jobs of one
name may be files for two environments, so that jobs are compared with each other within one file alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from muster.strategies.changes.changes import Changes
from muster.strategies.checks import volume_checks
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job, Kind
from muster.strategies.launches import program_kinds
from muster.webhook.admission.decisions import Decision
from muster.webhook.cli.related import (
    capacity,
    collisions,
    inlined,
    missing_references,
    pod_networks,
)
from muster.webhook.cli.related.related_documents import Inputs, member, name_of
from muster.webhook.cluster import readers
from muster.webhook.kubeyaml.sources import Source

__all__ = ["Inputs", "check", "inlined", "settled"]

_SEVERAL = 2


def check(source: Source, decision: Decision, cluster: readers.ClusterReader, inputs: Inputs) -> Iterator[Finding]:
    """Report what the other documents say about a job; nothing about one that was read alone.

    Args:
        source: the job as it was written.
        decision: of its mutation; the shape of its document has been checked.
        cluster: what the decision read.
        inputs: all documents of the input.
    """
    request, governor = decision.request, decision.governor
    known = request.kind == "JobSet" or governor.runtime is not None
    if len(inputs.sources) < _SEVERAL or not known or any(each.rule == "core/shape" for each in decision.findings):
        return
    kind: Kind = "JobSet" if request.kind == "JobSet" else "TrainJob"
    job = Job(kind, Changes(decision.document), request.namespace, governor.runtime, identify=program_kinds.identify)
    yield from collisions.check(job, source, inputs, cluster)
    yield from capacity.gangs(job, inputs)
    yield from pod_networks.addressed(job, source, inputs)
    yield from pod_networks.shared_ports(job, source, inputs)
    if inputs.has(request.namespace, "PersistentVolumeClaim"):
        yield from volume_checks.named(job, templates.list_templates(job), _modes(inputs, request.namespace))
    if inputs.has(request.namespace, "ConfigMap", "Secret", "PersistentVolumeClaim"):
        yield from missing_references.check(job, inputs)
    if inputs.has(request.namespace, "Service"):
        yield from pod_networks.targets(job, inputs)
    if inputs.has(request.namespace, "ResourceQuota"):
        yield from capacity.quotas(job, inputs)
    if inputs.has(request.namespace, "NetworkPolicy"):
        yield from pod_networks.policies(job, inputs)
    if inputs.has("", "ClusterQueue"):
        yield from capacity.queues(job, inputs)


def settled(mutated: Decision, validated: Decision, inputs: Inputs) -> frozenset[tuple[str, str]]:
    """Return the rules and fields of findings about a job that other documents of the input answer.

    Args:
        mutated: the decision of the mutation.
        validated: that of the validation of the mutated job.
        inputs: all documents of the input.
    """
    request, found = mutated.request, [*mutated.findings, *validated.findings]
    if not inputs.has(request.namespace, "Service", "ComputeDomain") or any(
        each.rule == "core/shape" for each in found
    ):
        return frozenset()
    kind: Kind = "JobSet" if request.kind == "JobSet" else "TrainJob"
    job = Job(
        kind, Changes(mutated.document), request.namespace, mutated.governor.runtime, identify=program_kinds.identify
    )
    made = frozenset((each.rule, each.field) for each in _made_by_controllers(job, inputs, found))
    return pod_networks.settled(job, inputs) | made


def _modes(inputs: Inputs, namespace: str) -> Mapping[str, list[str]]:
    """Return the access modes of the claims of volumes; the service cannot read them in a cluster."""
    modes: dict[str, list[str]] | None = inputs.memory.get(("modes", namespace))
    if modes is None:
        modes = inputs.memory["modes", namespace] = {}
        for each in inputs.of_kind("PersistentVolumeClaim", namespace):
            written = member(each.document, "spec").get("accessModes")
            if isinstance(written, list):
                modes[name_of(each.document)] = [mode for mode in written if isinstance(mode, str)]
    return modes


def _made_by_controllers(job: Job, inputs: Inputs, found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield those findings about missing templates that a controller makes for a document of the input."""
    for finding in found:
        if finding.rule == "claims/unknown-object" and finding.value in _made(inputs, job.namespace):
            yield finding


def _made(inputs: Inputs, namespace: str) -> frozenset[str]:
    """Return the names of the templates that NVIDIA's DRA driver makes, for its ComputeDomains."""
    channels = (member(each.document, "spec", "channel") for each in inputs.of_kind("ComputeDomain", namespace))
    return frozenset(str(member(each, "resourceClaimTemplate").get("name")) for each in channels)
