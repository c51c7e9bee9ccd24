"""TrainJob v1alpha1 (trainer `pkg/apis/trainer/v1alpha1/trainjob_types.go`): its runtime and its trainer.

Overrides: what a TrainJob changes in the pods of its runtime, as each version of Trainer spells it.

The first Trainer has `podSpecOverrides`, the second `podTemplateOverrides`, and later ones `runtimePatches`, of which
all else here reads only the last. All are laid over the template by the same merge. The labels and annotations of the
spec, of the first two, go to the JobSet, as those of a patch's template do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from muster.strategies.documents import decoding, names, paths
from muster.strategies.documents.model import RuntimeRef
from muster.strategies.documents.paths import Path

__all__ = [
    "META",
    "OLDER",
    "OVERRIDES",
    "PATCHES",
    "RUNTIME_KINDS",
    "Entry",
    "entries",
    "is_supported",
    "of_pods",
    "patches",
    "runtime_ref",
    "spelled",
    "trainer",
]


RUNTIME_KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
"""The kinds that `spec.runtimeRef` may name; Trainer's webhook refuses others (`pkg/webhooks/trainjob_webhook.go`)."""


def runtime_ref(trainjob: Mapping[str, Any]) -> tuple[str, str]:
    """Return (kind, name) of the runtime; a missing kind is the CRD's default, a missing name is ""."""
    ref = _ref(trainjob)
    return ref.kind or RUNTIME_KINDS[0], ref.name


def is_supported(trainjob: Mapping[str, Any]) -> bool:
    """Whether `spec.runtimeRef` names something that Trainer can use as a runtime, if it exists."""
    ref = _ref(trainjob)
    return bool(ref.name) and ref.kind in (*RUNTIME_KINDS, "") and ref.api_group in (None, names.TRAINER_GROUP)


def trainer(trainjob: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `spec.trainer` as the document holds it, empty when it is missing."""
    return decoding.member(trainjob, "spec", "trainer")


def _ref(trainjob: Mapping[str, Any]) -> RuntimeRef:
    return decoding.read(decoding.member(trainjob, "spec", "runtimeRef"), RuntimeRef)


PATCHES = "runtimePatches"
OVERRIDES = ("podSpecOverrides", "podTemplateOverrides")
META = ("labels", "annotations")
OLDER = frozenset({*OVERRIDES, *META})
"""Members that patches replaced."""
_MANAGER = "muster.dev/migrate"
"""Who owns a patch that is written in place of something older: Trainer wants a domain and a path."""
_POD = ("template", "spec", "template")
_JOBS: Path = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")


class Entry(Struct, frozen=True):
    """One patch, and the place in the TrainJob of the member that it is, or that it stands for."""

    patch: Mapping[str, Any]
    place: Path

    @property
    def is_own(self) -> bool:
        """Whether the TrainJob has it as a patch."""
        return self.place[1:2] == (PATCHES,)

    def pod(self, index: int) -> Path:
        """Return the place of what is laid over the pods of a replicated job, an index of the patch's own list."""
        return (*self.place, *_JOBS, index, *_POD) if self.is_own else self.place


def entries(trainjob: Mapping[str, Any]) -> list[Entry]:
    """Return the patches of a TrainJob, those that older members amount to included, in their order."""
    spec = trainjob.get("spec")
    if not spec or (PATCHES not in spec and OLDER.isdisjoint(spec)):  # nearly all jobs
        return []
    own = enumerate(spec.get(PATCHES) or ())
    return [*(Entry(patch, ("spec", PATCHES, number)) for number, patch in own), *_older(spec)]


def patches(trainjob: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the patches of `entries`."""
    return [each.patch for each in entries(trainjob)]


def spelled(trainjob: Mapping[str, Any], member: str) -> dict[str, Any]:
    """Return what a TrainJob changes in the pods of its runtime, as members of the spec of another version.

    Args:
        trainjob: with members of any version.
        member: how that version spells it, `Version.patches`.
    """
    every = entries(trainjob)
    if member == PATCHES:
        return {member: [each.patch for each in every]}
    found: dict[str, Any] = {}
    pods = []
    for entry in every:
        meta = decoding.member(entry.patch, "trainingRuntimeSpec", "template", "metadata")
        found |= {name: value for name, value in meta.items() if name in META}
        for job in decoding.sequence(paths.lookup(entry.patch, _JOBS)):
            pod = decoding.member(job, *_POD)
            target = {"targetJobs": [{"name": job.get("name")}]}
            pods.append({**target, **((pod.get("spec") or {}) if member == OVERRIDES[0] else pod)})
    return {**found, member: pods} if pods else found


def _older(spec: Mapping[str, Any]) -> Iterator[Entry]:
    meta = {member: spec[member] for member in META if isinstance(spec.get(member), dict) and spec[member]}
    number = 0
    if meta:
        number = 1
        yield Entry({"manager": _MANAGER, "trainingRuntimeSpec": {"template": {"metadata": meta}}}, ("spec",))
    for member in OVERRIDES:
        for index, each in enumerate(decoding.sequence(spec.get(member))):
            names = [name for job in decoding.items(each, "targetJobs") if isinstance(name := job.get("name"), str)]
            pod = {name: value for name, value in each.items() if name != "targetJobs"} if names else {}
            number += 1
            pods = dict.fromkeys(names, {"spec": pod} if member == OVERRIDES[0] else pod)
            yield Entry(of_pods(pods, number), ("spec", member, index))


def of_pods(pods: Mapping[str, Any], number: int = 1) -> dict[str, Any]:
    """Return a patch that Muster writes, from the pod template of each replicated job."""
    manager = _MANAGER if number == 1 else f"{_MANAGER}-{number}"
    jobs = [{"name": name, "template": {"spec": {"template": pod}}} for name, pod in pods.items()]
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
