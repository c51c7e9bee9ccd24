"""TrainJobs and runtimes of Trainer 2.0 and 2.1, written for v2.3.

`pkg/apis/trainer/v1alpha1` of v2.0.1 and v2.1.0 has `podSpecOverrides`, `podTemplateOverrides`, `labels` and
`annotations`, which v2.2 replaced by `runtimePatches`, and numbers of processes that may be words.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from webhook.cli.migrations import pods, pytorch, reading, targets
from webhook.cli.migrations.notes import Notes, Unmigrated

__all__ = ["is_old", "migrate_job", "migrate_runtime", "processes_of"]

_OVERRIDES = ("podSpecOverrides", "podTemplateOverrides")
_ABOUT = ("labels", "annotations")


def is_old(document: Mapping[str, Any]) -> bool:
    """Whether a TrainJob or runtime has a member that Trainer v2.3 does not know."""
    spec = reading.section(document, "spec")
    if document["kind"] != "TrainJob":
        torch = reading.section(document, "spec", "mlPolicy", "torch")
        return "numProcPerNode" in torch or "elasticPolicy" in torch
    number = reading.section(document, "spec", "trainer").get("numProcPerNode")
    return isinstance(number, str) or any(each in spec for each in (*_OVERRIDES, *_ABOUT))


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
    about = {each: spec.pop(each) for each in _ABOUT if spec.get(each)}
    jobs: dict[str, dict[str, Any]] = {}
    for member in _OVERRIDES:
        for number, override in enumerate(reading.objects(spec.pop(member, None), f"spec.{member}")):
            for name, pod in _override(override, f"spec.{member}[{number}]").items():
                jobs[name] = _later(jobs.get(name, {}), pod)
    if about or jobs:
        spec["runtimePatches"] = [*(spec.get("runtimePatches") or []), targets.patched(jobs, about)]
    return [made]


def _override(override: Mapping[str, Any], at: str) -> dict[str, dict[str, Any]]:
    """Return the pod template that an override asks for, by the replicated jobs that it is for."""
    jobs = [reading.string(each, "name") for each in reading.objects(override.get("targetJobs"), f"{at}.targetJobs")]
    if not jobs:
        raise Unmigrated(f"{at}.targetJobs: names no replicated job, so the override has no effect; name one")
    if at.startswith("spec.podTemplate"):
        metadata = reading.section(override, "metadata")
        pod = {"metadata": {each: metadata[each] for each in _ABOUT if metadata.get(each)}} if metadata else {}
        inner = reading.section(override, "spec")
    else:
        pod, inner = {}, {each: value for each, value in override.items() if each != "targetJobs"}
    return {name: {**pod, **({"spec": inner} if inner else {})} for name in jobs}


def _later(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return two overrides of one replicated job as one; the later one wins, as in Trainer."""
    merged = dict(first)
    for name, value in other.items():
        mine = merged.get(name)
        if isinstance(mine, dict) and isinstance(value, dict):
            merged[name] = _later(mine, value)
        elif isinstance(mine, list) and isinstance(value, list) and name in pods.KEYS:
            key = pods.KEYS[name]
            new = {each.get(key): each for each in value}
            kept = [_later(each, new.pop(each.get(key), {})) for each in mine]
            merged[name] = [*kept, *new.values()]
        else:
            merged[name] = value
    return merged


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
        text = f"{number}: Trainer v2.3 reads it from the TrainJob; write spec.trainer.numProcPerNode there"
        notes.lost(member, text)
    torch.pop("elasticPolicy", None)
    return [made]
