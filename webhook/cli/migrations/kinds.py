"""Kinds: which documents are migrated, and by which module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from muster.strategies.documents import names
from muster.webhook.cli.migrations import mpi, older, others, pytorch, reading
from muster.webhook.cli.migrations.notes import Migrated, Notes, Unmigrated

__all__ = ["SOURCES", "migrate", "numbers"]

_OPERATOR = "kubeflow.org"
_RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")
SOURCES: Mapping[str, Callable[[Mapping[str, Any], Notes], list[dict[str, Any]]]] = {
    "PyTorchJob": pytorch.migrate,
    "MPIJob": mpi.migrate,
    **dict.fromkeys(others.KINDS, others.migrate),
}
"""The kinds of the old operators that have a TrainJob."""
_VERSIONS = {"MPIJob": ("v1", "v2beta1")}
_WITHOUT = {"PaddleJob": "Trainer has no policy for PaddlePaddle; write a JobSet, and set the variables PADDLE_* in it"}


def numbers(documents: Iterable[Mapping[str, Any]]) -> tuple[dict[str, str | int], frozenset[str]]:
    """Return the numbers of processes of older runtimes by their names, and the names that TrainJobs refer to."""
    found: dict[str, str | int] = {}
    referred = set[str]()
    for document in documents:
        if str(document["apiVersion"]).partition("/")[0] != names.TRAINER_GROUP:
            continue
        try:
            number = older.processes_of(document) if document["kind"] in _RUNTIMES else None
            name = reading.string(document, "metadata", "name")
            if document["kind"] == "TrainJob":
                referred.add(reading.string(document, "spec", "runtimeRef", "name"))
        except Unmigrated:
            continue
        if number is not None:
            found[name] = number
    return found, frozenset(referred)


def migrate(
    document: Mapping[str, Any], runtimes: Mapping[str, str | int], referred: frozenset[str]
) -> Migrated | None:
    """Return what stands for a document; None for one that stays as it is.

    Args:
        document: of any kind.
        runtimes: the numbers of processes of the input's older runtimes.
        referred: the names of the runtimes that the input's TrainJobs refer to.

    Raises:
        Unmigrated: it is of a kind that is migrated, and has no TrainJob.
    """
    group, _, version = str(document["apiVersion"]).partition("/")
    kind, notes = str(document["kind"]), Notes()
    if group == _OPERATOR and kind in _WITHOUT:
        raise Unmigrated(_WITHOUT[kind])
    if group == _OPERATOR and kind in SOURCES:
        if version not in _VERSIONS.get(kind, ("v1",)):
            raise Unmigrated(f"apiVersion: {version!r} is not a version that can be migrated; use v1, then migrate")
        reading.section(document, "spec")
        notes.judge(document, kind)
        return Migrated(SOURCES[kind](document, notes), notes.found)
    if group != names.TRAINER_GROUP or kind not in ("TrainJob", *_RUNTIMES) or not _is_old(document, kind, runtimes):
        return None
    notes.judge(document, "TrainJob" if kind == "TrainJob" else "TrainingRuntime")
    if kind == "TrainJob":
        return Migrated(older.migrate_job(document, notes, runtimes), notes.found)
    used = reading.string(document, "metadata", "name") in referred
    return Migrated(older.migrate_runtime(document, notes, used), notes.found)


def _is_old(document: Mapping[str, Any], kind: str, runtimes: Mapping[str, str | int]) -> bool:
    refers = kind == "TrainJob" and reading.string(document, "spec", "runtimeRef", "name") in runtimes
    without = "numProcPerNode" not in reading.section(document, "spec", "trainer")
    return older.is_old(document) or (refers and without)
