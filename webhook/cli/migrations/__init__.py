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

from muster.strategies.documents import decoding, model, names, trainjobs
from muster.webhook.cli.migrations import old_kinds, old_operators
from muster.webhook.cli.migrations.migration_notes import Migrated, Note, Notes
from muster.webhook.cli.migrations.old_kinds import Document, OldRuntime, OldTrainJob, Raw, Unmigrated
from muster.webhook.cli.migrations.trainjob_writing import text

__all__ = ["SOURCES", "Migrated", "Note", "Unmigrated", "migrate", "numbers", "text"]


_OPERATOR = "kubeflow.org"
_RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")
SOURCES: Mapping[str, Callable[[Raw, Notes], list[Document]]] = {
    "PyTorchJob": old_operators.migrate_pytorch,
    "MPIJob": old_operators.migrate_mpi,
    **dict.fromkeys(old_operators.OTHERS, old_operators.migrate_other),
}
"""The kinds of the old operators that have a TrainJob."""
_VERSIONS = {"MPIJob": ("v1", "v2beta1")}
_WITHOUT = {"PaddleJob": "Trainer has no policy for PaddlePaddle; write a JobSet, and set the variables PADDLE_* in it"}


def numbers(documents: Iterable[Raw]) -> tuple[dict[str, str | int], frozenset[str]]:
    """Return the numbers of processes of older runtimes by their names, and the names that TrainJobs refer to."""
    found: dict[str, str | int] = {}
    referred = set[str]()
    for document in documents:
        if str(document["apiVersion"]).partition("/")[0] == names.TRAINER_GROUP:
            if document["kind"] in _RUNTIMES:
                runtime = decoding.read(document, OldRuntime)
                number = _number(runtime)
                found |= {runtime.metadata.name: number} if number is not None else {}
            elif document["kind"] == "TrainJob":
                referred.add(decoding.read(document, OldTrainJob).spec.runtime_ref.name)
    return found, frozenset(referred)


def _number(runtime: OldRuntime) -> str | int | None:
    """Return the number of processes that a runtime of an older Trainer sets for its TrainJobs."""
    found = runtime.spec.ml_policy.torch.num_proc_per_node
    return found if found != "auto" else None


def migrate(document: Raw, runtimes: Mapping[str, str | int], referred: frozenset[str]) -> Migrated | None:
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
        old_kinds.read(document, old_kinds.OldJob)
        notes.judge(document, kind)
        return Migrated(SOURCES[kind](document, notes), notes.found)
    if group != names.TRAINER_GROUP or kind not in ("TrainJob", *_RUNTIMES):
        return None
    made = _job(document, notes, runtimes) if kind == "TrainJob" else _runtime(document, notes, referred)
    return None if made is None else Migrated([made], notes.found)


def _job(document: Raw, notes: Notes, runtimes: Mapping[str, str | int]) -> Document | None:
    """Return a TrainJob of an older Trainer for that of today; None for one of today.

    Args:
        document: the TrainJob.
        notes: for what changed.
        runtimes: the number of processes of each runtime of the input that had one, by its name.
    """
    spec = old_kinds.read(document, OldTrainJob).spec
    number = spec.trainer.num_proc_per_node
    written = runtimes.get(spec.runtime_ref.name) if number is None else number if isinstance(number, str) else None
    older = not trainjobs.OLDER.isdisjoint(decoding.member(document, "spec"))
    if written is None and not older:
        return None
    notes.judge(document, "TrainJob")
    _check(spec)
    made = copy.deepcopy({member: value for member, value in document.items() if member != "status"})
    if written is not None:
        given = {} if spec.trainer.resources_per_node is None else spec.trainer.resources_per_node
        resources = old_kinds.read(given, model.Resources, "spec.trainer.resourcesPerNode.")
        processes = old_operators.processes(written, resources, "spec.trainer.numProcPerNode", notes)
        trainer = {each: value for each, value in made["spec"].get("trainer", {}).items() if each != "numProcPerNode"}
        made["spec"]["trainer"] = {**trainer, **({} if processes is None else {"numProcPerNode": processes})}
    if older:
        old_kinds.read(made["spec"], old_kinds.Patched, "spec.")
        patched = trainjobs.spelled(made, trainjobs.PATCHES)
        kept = {each: value for each, value in made["spec"].items() if each not in trainjobs.OLDER}
        made["spec"] = {**kept, **(patched if patched[trainjobs.PATCHES] else {})}
    return made


def _check(spec: old_kinds.OldTrainJobSpec) -> None:
    """Raise where an override is for no replicated job."""
    every = {"podSpecOverrides": spec.pod_spec_overrides, "podTemplateOverrides": spec.pod_template_overrides}
    for member, listed in every.items():
        for number, each in enumerate(listed):
            if not any(job.name for job in each.target_jobs):
                at = f"spec.{member}[{number}].targetJobs"
                raise Unmigrated(f"{at}: names no replicated job, so the override has no effect; name one")


def _runtime(document: Raw, notes: Notes, referred: frozenset[str]) -> Document | None:
    """Return a runtime of an older Trainer for that of today; None for one of today.

    Args:
        document: a TrainingRuntime or ClusterTrainingRuntime.
        notes: for what changed.
        referred: the names of the runtimes whose number of processes a TrainJob of the input takes over.
    """
    runtime = old_kinds.read(document, OldRuntime)
    torch, number = runtime.spec.ml_policy.torch, _number(runtime)
    if torch == old_kinds.OldTorchPolicy():
        return None
    notes.judge(document, "TrainingRuntime")
    member, to = "spec.mlPolicy.torch.numProcPerNode", "spec.mlPolicy.torch"
    if number is not None and runtime.metadata.name in referred:
        notes.changed(member, to, f"{number} is now in the TrainJobs of these files, as spec.trainer.numProcPerNode.")
    elif number is not None:
        notes.lost(member, f"{number}: Trainer reads it from the TrainJob; write spec.trainer.numProcPerNode there")
    made = copy.deepcopy(dict(document))
    for each in ("numProcPerNode", "elasticPolicy"):
        made["spec"]["mlPolicy"]["torch"].pop(each, None)
    return made
