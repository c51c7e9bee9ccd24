"""Migrations: jobs of training-operator, of mpi-operator and of older Trainers, written for the Trainer of today.

`members.toml` says what becomes of each member of each source kind. `migration_notes` compares a document with it, so
that nothing is dropped in silence. `old_operators` describes the job (`pod_templates`), and `trainjob_writing` writes a
TrainJob on a runtime that is shipped where that is enough, else on one of its own, with the notes as comments.

`pkg/apis/trainer/v1alpha1` of v2.0.1 and v2.1.0 has `podSpecOverrides`, `podTemplateOverrides`, `labels` and
`annotations`, which v2.2 replaced by `runtimePatches`, and numbers of processes that may be words.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from muster.strategies.documents import names, trainjobs
from muster.webhook.cli.migrations import migration_notes, old_operators
from muster.webhook.cli.migrations.migration_notes import Migrated, Note, Notes, Unmigrated
from muster.webhook.cli.migrations.trainjob_writing import text

__all__ = [
    "SOURCES",
    "Migrated",
    "Note",
    "Unmigrated",
    "is_old",
    "migrate",
    "migrate_job",
    "migrate_runtime",
    "numbers",
    "processes_of",
    "text",
]


_OPERATOR = "kubeflow.org"
_RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")
SOURCES: Mapping[str, Callable[[Mapping[str, Any], Notes], list[dict[str, Any]]]] = {
    "PyTorchJob": old_operators.migrate_pytorch,
    "MPIJob": old_operators.migrate_mpi,
    **dict.fromkeys(old_operators.OTHERS, old_operators.migrate_other),
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
            number = processes_of(document) if document["kind"] in _RUNTIMES else None
            name = migration_notes.string(document, "metadata", "name")
            if document["kind"] == "TrainJob":
                referred.add(migration_notes.string(document, "spec", "runtimeRef", "name"))
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
        migration_notes.section(document, "spec")
        notes.judge(document, kind)
        return Migrated(SOURCES[kind](document, notes), notes.found)
    if group != names.TRAINER_GROUP or kind not in ("TrainJob", *_RUNTIMES) or not _is_old(document, kind, runtimes):
        return None
    notes.judge(document, "TrainJob" if kind == "TrainJob" else "TrainingRuntime")
    if kind == "TrainJob":
        return Migrated(migrate_job(document, notes, runtimes), notes.found)
    used = migration_notes.string(document, "metadata", "name") in referred
    return Migrated(migrate_runtime(document, notes, used), notes.found)


def _is_old(document: Mapping[str, Any], kind: str, runtimes: Mapping[str, str | int]) -> bool:
    refers = kind == "TrainJob" and migration_notes.string(document, "spec", "runtimeRef", "name") in runtimes
    without = "numProcPerNode" not in migration_notes.section(document, "spec", "trainer")
    return is_old(document) or (refers and without)


def is_old(document: Mapping[str, Any]) -> bool:
    """Whether a TrainJob or runtime has a member that Trainer does not know."""
    spec = migration_notes.section(document, "spec")
    if document["kind"] != "TrainJob":
        torch = migration_notes.section(document, "spec", "mlPolicy", "torch")
        return "numProcPerNode" in torch or "elasticPolicy" in torch
    number = migration_notes.section(document, "spec", "trainer").get("numProcPerNode")
    return isinstance(number, str) or not trainjobs.OLDER.isdisjoint(spec)


def migrate_job(document: Mapping[str, Any], notes: Notes, runtimes: Mapping[str, str | int]) -> list[dict[str, Any]]:
    """Return the TrainJob.

    Args:
        document: the TrainJob.
        notes: for what changed.
        runtimes: the number of processes of each runtime of the input that had one, by its name.
    """
    made = copy.deepcopy(dict(document))
    made.pop("status", None)
    spec = made["spec"]
    trainer = dict(migration_notes.section(document, "spec", "trainer"))
    inherited = runtimes.get(migration_notes.string(document, "spec", "runtimeRef", "name"))
    if isinstance(trainer.get("numProcPerNode"), str) or ("numProcPerNode" not in trainer and inherited is not None):
        written = trainer.pop("numProcPerNode", inherited)
        resources = migration_notes.section(trainer, "resourcesPerNode")
        number = old_operators.processes(written or "auto", resources, "spec.trainer.numProcPerNode", notes)
        spec["trainer"] = {**trainer, **({} if number is None else {"numProcPerNode": number})}
    _check(spec)
    if not trainjobs.OLDER.isdisjoint(spec):
        patched = trainjobs.spelled(made, trainjobs.PATCHES)
        kept = {each: value for each, value in spec.items() if each not in trainjobs.OLDER}
        made["spec"] = {**kept, **(patched if patched[trainjobs.PATCHES] else {})}
    return [made]


def _check(spec: Mapping[str, Any]) -> None:
    """Raise where a member that changes the pods has another type, or an override is for no replicated job."""
    for member in trainjobs.META:
        migration_notes.section(spec, member)
    for member in (trainjobs.PATCHES, *trainjobs.OVERRIDES):
        for number, each in enumerate(migration_notes.objects(spec.get(member), f"spec.{member}")):
            at = f"spec.{member}[{number}].targetJobs"
            jobs = [migration_notes.string(job, "name") for job in migration_notes.objects(each.get("targetJobs"), at)]
            if not any(jobs) and member != trainjobs.PATCHES:
                raise Unmigrated(f"{at}: names no replicated job, so the override has no effect; name one")


def processes_of(document: Mapping[str, Any]) -> str | int | None:
    """Return the number of processes that a runtime of an older Trainer sets for its TrainJobs."""
    found = migration_notes.section(document, "spec", "mlPolicy", "torch").get("numProcPerNode")
    return found if isinstance(found, (str, int)) and found != "auto" else None


def migrate_runtime(document: Mapping[str, Any], notes: Notes, used: bool) -> list[dict[str, Any]]:  # one caller
    """Return the runtime.

    Args:
        document: a TrainingRuntime or ClusterTrainingRuntime.
        notes: for what changed.
        used: whether a TrainJob of the input takes the number of processes over.
    """
    made = copy.deepcopy(dict(document))
    torch = made["spec"]["mlPolicy"]["torch"]
    number = processes_of(document)
    torch.pop("numProcPerNode", None)
    member, to = "spec.mlPolicy.torch.numProcPerNode", "spec.mlPolicy.torch"
    if number is not None and used:
        notes.changed(member, to, f"{number} is now in the TrainJobs of these files, as spec.trainer.numProcPerNode.")
    elif number is not None:
        text = f"{number}: Trainer reads it from the TrainJob; write spec.trainer.numProcPerNode there"
        notes.lost(member, text)
    torch.pop("elasticPolicy", None)
    return [made]
