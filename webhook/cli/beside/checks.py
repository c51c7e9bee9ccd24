"""Checks: everything that the other documents of the input say about one job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.strategies.changes.changes import Changes
from muster.strategies.checks import volumes
from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.pods import CLAIM_SOURCES
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job, Kind
from muster.strategies.launches import kinds
from muster.webhook.admission.decisions import Decision
from muster.webhook.cli import schemas
from muster.webhook.cli.beside import (
    claims,
    collisions,
    devices,
    gangs,
    meetings,
    networks,
    ports,
    queues,
    quotas,
    ranges,
    references,
    routes,
    standards,
)
from muster.webhook.cli.beside.inputs import Inputs, member, name_of
from muster.webhook.cluster import readers
from muster.webhook.kubeyaml.sources import Source

__all__ = ["check", "settled"]

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
    job = Job(kind, Changes(decision.document), request.namespace, governor.runtime, identify=kinds.identify)
    yield from _governing(job, inputs)
    yield from collisions.check(job, source, inputs, cluster)
    yield from gangs.check(job, inputs)
    yield from meetings.check(job, source, inputs)
    yield from ports.check(job, source, inputs)
    if any(inputs.has(request.namespace, each) for each in CLAIM_SOURCES.values()):
        yield from claims.check(job, inputs)
    if inputs.has(request.namespace, "PersistentVolumeClaim"):
        yield from volumes.named(job, templates.list_templates(job), _modes(inputs, request.namespace))
        yield from devices.check(job, inputs)
    if inputs.has(request.namespace, "ConfigMap", "Secret"):
        yield from references.check(job, inputs)
    if inputs.has(request.namespace, "Service"):
        yield from routes.check(job, inputs)
    if inputs.has(request.namespace, "ResourceQuota"):
        yield from quotas.check(job, inputs)
    if inputs.has(request.namespace, "ResourceQuota", "LimitRange"):
        yield from ranges.check(job, inputs)
    if inputs.has(request.namespace, "NetworkPolicy"):
        yield from networks.check(job, inputs)
    yield from _of_the_cluster(job, inputs)


def _of_the_cluster(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report what objects say that are in no namespace."""
    if inputs.has("", "Namespace"):
        yield from standards.check(job, inputs)
    if inputs.has("", "ClusterQueue"):
        yield from queues.check(job, inputs)


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
    job = Job(kind, Changes(mutated.document), request.namespace, mutated.governor.runtime, identify=kinds.identify)
    made = frozenset((each.rule, each.field) for each in claims.settled(job, inputs, found))
    return meetings.settled(job, inputs) | made


def _governing(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report what a runtime of the input is refused for on the TrainJob, which then has none; a cluster holds none."""
    runtime = job.runtime
    for each in inputs.named(runtime.kind, job.namespace, runtime.name) if runtime is not None else ():
        if runtime is not None and each.document == (runtime.bare or runtime.document):
            key = ("runtime", each.origin)
            if key not in inputs.memory:
                inputs.memory[key] = list(schemas.check_runtime(each.document))
            for finding in inputs.memory[key]:
                message = f"this {runtime.kind} has {finding.field}: {finding.message}"
                yield error("spec.runtimeRef.name", runtime.name, message, rule=finding.rule)


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
