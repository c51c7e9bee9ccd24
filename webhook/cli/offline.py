"""Offline: findings that only files need, because a cluster tells the same in its own way.

The API server refuses what has not the shape of its kind, and Trainer a job whose runtime does not exist. Files show
the first, by the definitions that Muster carries. They do not show the second: the runtime may be in the cluster.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from strategies.changes.changes import Changes
from strategies.checks import volumes
from strategies.documents import trainjobs
from strategies.documents.findings import Finding, error, warning
from strategies.documents.pods import CLAIM_SOURCES
from strategies.jobs import templates
from strategies.jobs.jobs import Job, Kind
from strategies.launches import kinds
from webhook.admission.decisions import Decision
from webhook.cli import claims, gangs, schemas
from webhook.cluster import readers
from webhook.kubeyaml.sources import Source

__all__ = ["check"]

_NEAR = 0.9  # trl-distributed and mlx-distributed are two runtimes, and not one misspelt
_NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}")
_NAMED = frozenset({*CLAIM_SOURCES.values(), "PodGroup"})


def check(
    source: Source, decision: Decision, cluster: readers.ClusterReader, others: Iterable[Source] = ()
) -> Iterator[Finding]:
    """Report what the API server would refuse, a runtime that no file holds, and claims of the input.

    Args:
        source: the object as it was written.
        decision: of its mutation.
        cluster: what the decision read.
        others: all documents of the input, of any kind.
    """
    kind = schemas.known_as(source.document)
    if kind is not None:
        yield from schemas.check(source.document, kind)
        if kind.name in trainjobs.RUNTIME_KINDS:
            yield from schemas.check_runtime(source.document)
    if decision.verdict != "skipped" and decision.governor.runtime_open:
        yield _unknown_runtime(decision, cluster)
    if decision.verdict != "skipped" and decision.governor.owner is None:
        every = list(others)
        yield from _governing(decision, every)
        yield from _beside(decision, every)


def _governing(decision: Decision, others: Iterable[Source]) -> Iterator[Finding]:
    """Report what a runtime of the input is refused for on the TrainJob, which then has none; a cluster holds none."""
    runtime = decision.governor.runtime
    if decision.request.kind == "TrainJob" and runtime is not None:
        for each in others:
            named = _object(each.document.get("metadata")).get("name")
            if (each.kind, named) == (runtime.kind, runtime.name) and each.document == runtime.document:
                for finding in schemas.check_runtime(each.document):
                    message = f"this {runtime.kind} has {finding.field}: {finding.message}"
                    yield error("spec.runtimeRef.name", runtime.name, message, rule=finding.rule)


def _beside(decision: Decision, others: Sequence[Source]) -> Iterator[Finding]:
    """Judge claims and gangs of the input; the service cannot read these of a cluster, or they are right there."""
    request, governor = decision.request, decision.governor
    modes = dict(_modes(others, request.namespace))
    named = any(each.kind in _NAMED for each in others)
    if (modes or named) and (request.kind == "JobSet" or governor.runtime is not None):
        kind: Kind = "JobSet" if request.kind == "JobSet" else "TrainJob"
        changes = Changes(decision.document)
        job = Job(kind, changes, request.namespace, governor.runtime, identify=kinds.identify)
        made, documents = list(templates.list_templates(job)), [each.document for each in others]
        yield from volumes.named(job, made, modes)
        yield from claims.check(job, documents, request.namespace)
        yield from gangs.check(job, made, documents, request.namespace)


def _modes(others: Iterable[Source], namespace: str) -> Iterator[tuple[str, list[str]]]:
    for document in (each.document for each in others if each.kind == "PersistentVolumeClaim"):
        metadata, spec = _object(document.get("metadata")), _object(document.get("spec"))
        name, modes = metadata.get("name"), spec.get("accessModes")
        if isinstance(name, str) and isinstance(modes, list) and metadata.get("namespace") in (None, "", namespace):
            yield name, [each for each in modes if isinstance(each, str)]


def _unknown_runtime(decision: Decision, cluster: readers.ClusterReader) -> Finding:
    kind, name = trainjobs.runtime_ref(decision.request.document)
    namespace = decision.request.namespace if kind == "TrainingRuntime" else ""
    given = map(_name, () if namespace else cluster.every(kind, {}) or ())
    near = difflib.get_close_matches(name, given, 1, _NEAR) if _NAME.fullmatch(name) else []
    meant = f"did you mean {near[0]}? Else " if near else ""
    message = (
        f"no {kind} of this name is among the files, so what depends on it was not checked; {meant}give it with "
        f"--runtimes FILE, which `{_command(kind, name, namespace)} > FILE` writes"
    )
    return warning("spec.runtimeRef.name", name, message, rule="core/runtime-unknown")


def _command(kind: str, name: str, namespace: str) -> str:
    where = f" -n {namespace}" if _NAME.fullmatch(namespace) else ""
    return f"kubectl get{where} {kind.lower()} {name if _NAME.fullmatch(name) else 'NAME'} -o yaml"


def _name(document: Mapping[str, Any]) -> str:
    return str((document.get("metadata") or {}).get("name", ""))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
