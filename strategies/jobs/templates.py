"""Templates: each replicated job of a JobSet with the document around it, as placement reads it.

For a TrainJob they are those of its runtime, under what the TrainJob's patches and resources will make of them, so that
the person who applies it is told what the JobSet will be refused for: nobody reads the answer to Trainer's request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from strategies.documents import names, paths, pods
from strategies.documents.paths import Absent, Path
from strategies.jobs.jobs import Job
from strategies.platform import devices

__all__ = ["Template", "list_templates"]

_POD = ("template", "spec", "template")
_REPLACED = ("nodeSelector", "tolerations")


@dataclass(frozen=True, slots=True)
class Template:
    """One replicated job.

    Attributes:
        document: in which it stands.
        job: the replicated job itself.
        path: where it stands in `document`.
        written: what of its pod spec a TrainJob's patches wrote, and where it stands in the TrainJob.
    """

    document: Mapping[str, Any]
    job: Mapping[str, Any]
    path: Path
    written: Mapping[Path, Path] = dataclasses.field(default_factory=dict)

    @property
    def pod_path(self) -> Path:
        """Where its pod spec is."""
        return (*self.path, *_POD, "spec")

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its pod spec, empty when it is missing."""
        return _object(self.job, *_POD, "spec")

    @property
    def is_initializer(self) -> bool:
        """Whether Trainer downloads a dataset or a model with it, before the training starts."""
        return pods.labels(self.job).get(names.ANCESTOR_LABEL) in ("dataset-initializer", "model-initializer")

    @property
    def main(self) -> tuple[Path, Mapping[str, Any]] | None:
        """Path and document of the container that does the work: `node` where there is one, else the first."""
        containers = self.spec.get("containers") or []
        named = (index for index, each in enumerate(containers) if each.get("name") == names.CONTAINER_NODE)
        index = next(named, 0)
        return ((*self.pod_path, "containers", index), containers[index]) if containers else None

    def metadata(self, member: str) -> Iterator[tuple[Mapping[str, Any], Path]]:
        """Yield its `labels` or `annotations` and where they are, of the pod template first, then of the Job's."""
        yield _object(self.job, *_POD, "metadata", member), (*self.path, *_POD, "metadata", member)
        yield _object(self.job, "template", "metadata", member), (*self.path, "template", "metadata", member)

    def field(self, *inside: str | int) -> str:
        """Return the field path of what is `inside` the pod spec."""
        return paths.field(self.document, (*self.pod_path, *inside))


def list_templates(job: Job) -> Iterator[Template]:
    """Yield the replicated jobs of a JobSet, or those that the JobSet of a TrainJob will have."""
    if job.kind == "JobSet":
        yield from _templates(job.document, ("spec",))
    elif job.runtime is not None:
        for template in _templates(job.runtime.document, ("spec", "template", "spec")):
            yield _patched(template, job)


def _templates(document: Mapping[str, Any], spec_path: tuple[str, ...]) -> Iterator[Template]:
    for index, job in enumerate(_object(document, *spec_path).get("replicatedJobs") or ()):
        yield Template(document, job, (*spec_path, "replicatedJobs", index))


def _patched(template: Template, job: Job) -> Template:
    """Return a copy with the placement and the resources that the TrainJob writes over the runtime's."""
    replicated, written = template.job, dict[Path, Path]()
    pod = _object(replicated, *_POD)
    metadata, spec = dict(pod.get("metadata") or {}), dict(pod.get("spec") or {})
    for patch, path in _patches(job, replicated.get("name")):
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
    override = job.trainer.get("resourcesPerNode")
    if override and pods.labels(replicated).get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER:
        spec["containers"] = [_with_resources(each, override) for each in spec.get("containers") or ()]
    inner = {**_object(replicated, "template", "spec"), "template": {**pod, "metadata": metadata, "spec": spec}}
    made = {**replicated, "template": {**_object(replicated, "template"), "spec": inner}}
    return Template(template.document, made, template.path, written)


def _patches(job: Job, name: Any) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """Yield what patches make of a replicated job's pod template, and where that stands."""
    inside = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
    for number, patch in enumerate((job.document.get("spec") or {}).get("runtimePatches") or ()):
        for index, each in enumerate(_list(patch, *inside)):
            if isinstance(each, dict) and each.get("name") == name:
                yield _object(each, *_POD), ("spec", "runtimePatches", number, *inside, index, *_POD)


def _with_resources(container: Mapping[str, Any], override: pods.ResourceRequirements) -> Mapping[str, Any]:
    if container.get("name") != names.CONTAINER_NODE:
        return container
    present = cast("pods.ResourceRequirements", container.get("resources") or {})
    return {**container, "resources": devices.merge(present, override)}


def _list(document: Any, *members: str) -> list[Any]:
    found = paths.lookup(document, members)
    return found if isinstance(found, list) else []


def _object(document: Any, *members: str) -> Mapping[str, Any]:
    found = paths.lookup(document, members)
    return {} if isinstance(found, Absent) or not isinstance(found, dict) else found
