"""TrainJobs and runtimes of older Trainers, written for the shipped one.

`pkg/apis/trainer/v1alpha1` of these has `podSpecOverrides`, `podTemplateOverrides`, `labels` and
`annotations`, which later ones replaced by `runtimePatches`, and numbers of processes that may be words.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from muster.strategies.documents import overrides
from muster.webhook.cli.migrations import pytorch, reading
from muster.webhook.cli.migrations.notes import Notes, Unmigrated

__all__ = ["is_old", "migrate_job", "migrate_runtime", "processes_of"]


def is_old(document: Mapping[str, Any]) -> bool:
    """Whether a TrainJob or runtime has a member that Trainer does not know."""
    spec = reading.section(document, "spec")
    if document["kind"] != "TrainJob":
        torch = reading.section(document, "spec", "mlPolicy", "torch")
        return "numProcPerNode" in torch or "elasticPolicy" in torch
    number = reading.section(document, "spec", "trainer").get("numProcPerNode")
    return isinstance(number, str) or not overrides.OLDER.isdisjoint(spec)


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
    trainer = dict(reading.section(document, "spec", "trainer"))
    inherited = runtimes.get(reading.string(document, "spec", "runtimeRef", "name"))
    if isinstance(trainer.get("numProcPerNode"), str) or ("numProcPerNode" not in trainer and inherited is not None):
        written = trainer.pop("numProcPerNode", inherited)
        resources = reading.section(trainer, "resourcesPerNode")
        number = pytorch.processes(written or "auto", resources, "spec.trainer.numProcPerNode", notes)
        spec["trainer"] = {**trainer, **({} if number is None else {"numProcPerNode": number})}
    _check(spec)
    if not overrides.OLDER.isdisjoint(spec):
        patched = overrides.spelled(made, overrides.PATCHES)
        kept = {each: value for each, value in spec.items() if each not in overrides.OLDER}
        made["spec"] = {**kept, **(patched if patched[overrides.PATCHES] else {})}
    return [made]


def _check(spec: Mapping[str, Any]) -> None:
    """Raise where a member that changes the pods has another type, or an override is for no replicated job."""
    for member in overrides.META:
        reading.section(spec, member)
    for member in (overrides.PATCHES, *overrides.OVERRIDES):
        for number, each in enumerate(reading.objects(spec.get(member), f"spec.{member}")):
            at = f"spec.{member}[{number}].targetJobs"
            jobs = [reading.string(job, "name") for job in reading.objects(each.get("targetJobs"), at)]
            if not any(jobs) and member != overrides.PATCHES:
                raise Unmigrated(f"{at}: names no replicated job, so the override has no effect; name one")


def processes_of(document: Mapping[str, Any]) -> str | int | None:
    """Return the number of processes that a runtime of an older Trainer sets for its TrainJobs."""
    found = reading.section(document, "spec", "mlPolicy", "torch").get("numProcPerNode")
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
