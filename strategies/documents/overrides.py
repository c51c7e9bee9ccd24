"""Overrides: what a TrainJob changes in the pods of its runtime, as each version of Trainer spells it.

Trainer 2.0 has `podSpecOverrides`, 2.1 `podTemplateOverrides`, and later versions `runtimePatches`, of which all else
here reads only the last. All are laid over the template by the same merge. The labels and annotations of the spec, of
2.0 and 2.1, go to the JobSet, as those of a patch's template do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strategies.documents import paths
from strategies.documents.paths import Absent, Path

__all__ = ["MANAGER", "PATCHES", "Entry", "entries", "patches", "spelled"]

PATCHES = "runtimePatches"
MANAGER = "example.org/user"
"""Who owns a patch that is written in place of overrides: Trainer wants a domain and a path."""
_OLDER = ("podSpecOverrides", "podTemplateOverrides")
_POD: Path = ("template", "spec", "template")
_JOBS: Path = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_META = ("labels", "annotations")
_ALL = frozenset({PATCHES, *_OLDER, *_META})


@dataclass(frozen=True, slots=True)
class Entry:
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
    if not spec or _ALL.isdisjoint(spec):  # nearly all jobs
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
        template = paths.lookup(entry.patch, _JOBS[:2])
        meta = template.get("metadata") if isinstance(template, dict) else None
        found |= {name: value for name, value in (meta or {}).items() if name in _META}
        jobs = paths.lookup(entry.patch, _JOBS)
        for job in jobs if isinstance(jobs, list) else ():
            pod = paths.lookup(job, _POD)
            pod = pod if isinstance(pod, dict) else {}
            target = {"targetJobs": [{"name": job.get("name")}]}
            pods.append({**target, **((pod.get("spec") or {}) if member == _OLDER[0] else pod)})
    return {**found, member: pods} if pods else found


def _older(spec: Mapping[str, Any]) -> Iterator[Entry]:
    meta = {member: spec[member] for member in _META if isinstance(spec.get(member), dict) and spec[member]}
    number = 0
    if meta:
        number = 1
        yield Entry({"manager": MANAGER, "trainingRuntimeSpec": {"template": {"metadata": meta}}}, ("spec",))
    for member in _OLDER:
        given = spec.get(member)
        for index, each in enumerate(given if isinstance(given, list) else ()):
            targets = each.get("targetJobs") if isinstance(each, dict) else None
            pod = {name: value for name, value in each.items() if name != "targetJobs"} if targets else {}
            pod = {"spec": pod} if member == _OLDER[0] else pod
            jobs = [{"name": name, "template": {"spec": {"template": pod}}} for name in _names(targets)]
            number += 1
            manager = f"{MANAGER}-{number}" if number > 1 else MANAGER
            made = {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
            yield Entry(made, ("spec", member, index))


def _names(targets: Any) -> Iterator[str]:
    for each in targets if isinstance(targets, list) else ():
        name = paths.lookup(each, ("name",))
        if not isinstance(name, Absent):
            yield name
