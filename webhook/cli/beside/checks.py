"""Checks: everything that the other documents of the input say about one job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.strategies.changes.changes import Changes
from muster.strategies.checks import volumes
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job, Kind
from muster.strategies.launches import kinds
from muster.webhook.admission.decisions import Decision
from muster.webhook.cli.beside import (
    claims,
    collisions,
    gangs,
    meetings,
    networks,
    ports,
    queues,
    quotas,
    references,
    routes,
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
    yield from collisions.check(job, source, inputs, cluster)
    yield from gangs.check(job, inputs)
    yield from meetings.check(job, source, inputs)
    yield from ports.check(job, source, inputs)
    if inputs.has(request.namespace, "PersistentVolumeClaim"):
        yield from volumes.named(job, templates.list_templates(job), _modes(inputs, request.namespace))
    if inputs.has(request.namespace, "ConfigMap", "Secret", "PersistentVolumeClaim"):
        yield from references.check(job, inputs)
    if inputs.has(request.namespace, "Service"):
        yield from routes.check(job, inputs)
    if inputs.has(request.namespace, "ResourceQuota"):
        yield from quotas.check(job, inputs)
    if inputs.has(request.namespace, "NetworkPolicy"):
        yield from networks.check(job, inputs)
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
