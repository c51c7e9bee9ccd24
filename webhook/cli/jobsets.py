"""Jobsets: the JobSet that follows from a TrainJob, and the decisions about it.

The JobSet that Trainer would make is predicted from the TrainJob after mutation, and is then decided as in the cluster:
with that TrainJob as its owner.
"""

from __future__ import annotations

from msgspec import structs

from muster.strategies.documents import decoding
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.trainer import predictions
from muster.webhook.cli import findings_report, problems
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cluster import readers
from muster.webhook.cluster.overlay import Overlay
from muster.webhook.cluster.readers import Ref

__all__ = ["follow"]


def follow(case: Case, setup: Setup) -> Case | None:
    """Return the case of the JobSet that Trainer would make of a TrainJob.

    None when there would be none (the TrainJob is refused, or its runtime is missing or not usable), when the case is
    not a TrainJob, or when the input contains that JobSet. One that cannot be predicted is named on stderr.
    """
    if case.source.kind != "TrainJob" or case.refused:
        return None
    name = predictions.job_name(case.document)
    runtime = _runtime(case, name, setup)
    if runtime is None or decoding.check(runtime.document) or _is_given(name, case.namespace, setup):
        return None
    try:
        predicted = predictions.predict(case.document, runtime, case.namespace)
    except predictions.UnpredictableError as error:
        problems.warn([problems.one_line(f"muster: {findings_report.place(case)}: {error}")])
        return None
    cluster = Overlay(setup.cluster.reader)
    cluster.put(Ref("TrainJob", case.namespace, name), case.document)
    decided = setup.decide(structs.replace(case.source, document=predicted.jobset, repeats=()), cluster)
    return Case(decided.source, decided.mutated, decided.validated, notes=predicted.notes, predicted=True)


def _runtime(case: Case, name: str, setup: Setup) -> Runtime | None:
    """Return the runtime that Trainer would use: the runtime snapshot of the job, otherwise the live runtime."""
    try:
        frozen = setup.cluster.reader.get(Ref("RuntimeSnapshot", case.namespace, name))
    except readers.SnapshotInvalid:
        return None
    trainer = readers.trainer_of(setup.cluster.reader)
    return Runtime(frozen, "snapshot", version=trainer) if frozen is not None else case.mutated.governor.runtime


def _is_given(name: str, namespace: str, setup: Setup) -> bool:
    for source in setup.sources:
        metadata = source.document.get("metadata")
        if source.kind == "JobSet" and isinstance(metadata, dict) and metadata.get("name") == name:
            return (metadata.get("namespace") or setup.namespace) == namespace
    return False
