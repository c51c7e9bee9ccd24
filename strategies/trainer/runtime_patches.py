"""Patches: a TrainJob's `runtimePatches` and `resourcesPerNode` applied to one replicated job of its runtime.

This covers only a part of what `merges` does for the whole template: labels, annotations, placement and resources. It
also records which patch wrote what, so that a finding can name the field that the user wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from strategies.documents import names, overrides, paths, pods, trainjobs
from strategies.documents.paths import Absent, Path
from strategies.trainer import resources

__all__ = ["Patches", "find_patches", "patch_replicated_job"]

Patches: TypeAlias = Mapping[str | None, Sequence[tuple[Mapping[str, Any], Path]]]
"""By the name of a replicated job: each patch of its pod template, and its place in the TrainJob."""

_POD = ("template", "spec", "template")
_INSIDE = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_REPLACED = ("nodeSelector", "tolerations")


def find_patches(trainjob: Mapping[str, Any]) -> Patches:
    """Return the `runtimePatches` of a TrainJob, in their order, with the place of what the author wrote."""
    found: dict[str | None, list[tuple[Mapping[str, Any], Path]]] = {}
    for entry in overrides.entries(trainjob):
        for index, each in enumerate(_list(entry.patch, *_INSIDE)):
            name = each.get("name") if isinstance(each, dict) else False
            if name is None or isinstance(name, str):
                found.setdefault(name, []).append((_object(each, *_POD), entry.pod(index)))
    return found


def patch_replicated_job(
    replicated: Mapping[str, Any], trainjob: Mapping[str, Any], patches: Patches
) -> tuple[Mapping[str, Any], Mapping[Path, Path]]:
    """Apply placement and resources of a TrainJob to a replicated job of its runtime.

    Args:
        replicated: an entry of `replicatedJobs` of the runtime's template.
        trainjob: the TrainJob with `resourcesPerNode`.
        patches: its `find_patches`.

    Returns:
        A copy of the replicated job, and the place in the TrainJob of each path of its pod spec that a patch wrote.
    """
    written = dict[Path, Path]()
    pod = _object(replicated, *_POD)
    metadata, spec = dict(pod.get("metadata") or {}), dict(pod.get("spec") or {})
    for patch, path in patches.get(replicated.get("name"), ()):
        for member in ("labels", "annotations"):
            if patched := _object(patch, "metadata", member):
                metadata[member] = {**(metadata.get(member) or {}), **patched}
        own = patch.get("spec") or {}
        replaced = {member: own[member] for member in _REPLACED if own.get(member)}
        spec |= replaced
        written |= {(member,): (*path, "spec", member) for member in replaced}
        if own.get("affinity"):
            spec["affinity"] = {**(spec.get("affinity") or {}), **own["affinity"]}
            written |= {("affinity", kind): (*path, "spec", "affinity", kind) for kind in own["affinity"]}
    override = trainjobs.trainer(trainjob).get("resourcesPerNode")
    if override and pods.labels(replicated).get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER:
        spec["containers"] = [_with_resources(each, override) for each in spec.get("containers") or ()]
    inner = {**_object(replicated, "template", "spec"), "template": {**pod, "metadata": metadata, "spec": spec}}
    made = {**replicated, "template": {**_object(replicated, "template"), "spec": inner}}
    return made, written


def _with_resources(container: Mapping[str, Any], override: pods.ResourceRequirements) -> Mapping[str, Any]:
    if container.get("name") != names.CONTAINER_NODE:
        return container
    present = cast("pods.ResourceRequirements", container.get("resources") or {})
    return {**container, "resources": resources.merge_resources(present, override)}


def _list(document: Any, *members: str) -> list[Any]:
    found = paths.lookup(document, members)
    return found if isinstance(found, list) else []


def _object(document: Any, *members: str) -> Mapping[str, Any]:
    found = paths.lookup(document, members)
    return {} if isinstance(found, Absent) or not isinstance(found, dict) else found
