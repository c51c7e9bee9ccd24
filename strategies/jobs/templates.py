"""Templates: each replicated job of a JobSet with the document around it, as claims and placement read it.

For a TrainJob they are those of its runtime, with the TrainJob's patches and resources applied. So the person who
applies the TrainJob learns why the JobSet would be refused; the answer to Trainer's own request reaches no person.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strategies.documents import names, paths, pods
from strategies.documents.paths import Absent, Path
from strategies.jobs import containers, programs
from strategies.jobs.jobs import Job, remembered_for_all
from strategies.trainer import runtime_patches

__all__ = ["Template", "find_template", "list_patches", "list_templates", "pods_of"]

_POD = ("template", "spec", "template")


@dataclass(frozen=True)
class Template:
    """One replicated job.

    Attributes:
        document: the document that holds it.
        job: the replicated job itself.
        path: its place in `document`.
        written: paths of its pod spec that a TrainJob's patches wrote, with their places in the TrainJob.
        identify: tells what a command line starts.
    """

    document: Mapping[str, Any]
    job: Mapping[str, Any]
    path: Path
    written: Mapping[Path, Path] = dataclasses.field(default_factory=dict)
    identify: programs.Identify = programs.unknown

    @property
    def pod_path(self) -> Path:
        """Where its pod spec is."""
        return (*self.path, *_POD, "spec")

    @functools.cached_property
    def spec(self) -> Mapping[str, Any]:
        """Its pod spec, empty when it is missing."""
        return _object(self.job, *_POD, "spec")

    @property
    def is_initializer(self) -> bool:
        """Whether Trainer downloads a dataset or a model with it, before the training starts."""
        return pods.labels(self.job).get(names.ANCESTOR_LABEL) in ("dataset-initializer", "model-initializer")

    @property
    def is_annotated(self) -> bool:
        """Whether its pods or its Jobs have annotations."""
        outer = self.job.get("template") or {}
        inner = (outer.get("spec") or {}).get("template") or {}
        return bool(
            (outer.get("metadata") or {}).get("annotations") or (inner.get("metadata") or {}).get("annotations")
        )

    @property
    def main(self) -> tuple[Path, Mapping[str, Any]] | None:
        """Path and document of the container that does the work."""
        index = self._main()
        return None if index is None else ((*self.pod_path, "containers", index), self.spec["containers"][index])

    def _main(self) -> int | None:
        own = self.spec.get("containers") or ()
        if pods.labels(self.job).get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER:
            named = (index for index, each in enumerate(own) if each.get("name") == names.CONTAINER_NODE)
            return next(named, 0 if own else None)
        return containers.choose(self.spec, self.identify)

    def metadata(self, member: str) -> Iterator[tuple[Mapping[str, Any], Path]]:
        """Yield its `labels` or `annotations` and their path, those of the pod template first, then the Job's."""
        yield _object(self.job, *_POD, "metadata", member), (*self.path, *_POD, "metadata", member)
        yield _object(self.job, "template", "metadata", member), (*self.path, "template", "metadata", member)

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The annotations of its pods."""
        metadata = _object(self.job, *_POD).get("metadata")
        return _object(metadata, "annotations") if metadata else {}

    @property
    def annotations_path(self) -> Path:
        """Where the annotations of its pods are."""
        return (*self.path, *_POD, "metadata", "annotations")

    def field(self, *inside: str | int) -> str:
        """Return the field path of the place `inside` the pod spec."""
        return paths.field(self.document, (*self.pod_path, *inside))


@remembered_for_all
def list_templates(job: Job) -> Sequence[Template]:
    """Return the replicated jobs of a JobSet, or those that the JobSet of a TrainJob will have."""
    document, path = (job.document, _OF_JOBSET) if job.kind == "JobSet" else (_runtime(job), _OF_RUNTIME)
    every = enumerate(_object(document, *path).get("replicatedJobs") or ())
    if job.kind == "JobSet":
        return [Template(document, each, (*path, "replicatedJobs", n), {}, job.identify) for n, each in every]
    patches = runtime_patches.find_patches(job.document)
    return [_patched(job, document, each, (*path, "replicatedJobs", n), patches) for n, each in every]


def find_template(job: Job, path: Path) -> Template | None:
    """Return the replicated job at `path`; of a JobSet, without looking at the others."""
    if job.kind != "JobSet":
        return next((each for each in list_templates(job) if each.path == path), None)
    found = paths.lookup(job.document, path)
    return None if isinstance(found, Absent) else Template(job.document, found, path, {}, job.identify)


def list_patches(job: Job) -> runtime_patches.Patches:
    """Return what a TrainJob's runtimePatches add to pods, by the name of a replicated job; nothing for a JobSet."""
    return runtime_patches.find_patches(job.document) if job.kind == "TrainJob" else {}


def pods_of(job: Job, template: Template) -> Iterator[Mapping[str, Any]]:
    """Yield the pod spec of a template, and what the patches of a TrainJob add to it."""
    yield template.spec
    for patch, _ in list_patches(job).get(template.job.get("name"), ()):
        yield _object(patch, "spec")


_OF_JOBSET, _OF_RUNTIME = ("spec",), ("spec", "template", "spec")


def _runtime(job: Job) -> Mapping[str, Any]:
    return job.runtime.document if job.runtime is not None else {}


def _patched(
    job: Job,
    document: Mapping[str, Any],
    replicated: Mapping[str, Any],
    path: Path,
    patches: runtime_patches.Patches,
) -> Template:
    replicated, written = runtime_patches.patch_replicated_job(replicated, job.document, patches)
    return Template(document, replicated, path, written, job.identify)


def _object(document: Any, *members: str) -> Mapping[str, Any]:
    found = document
    for member in members:
        found = found.get(member) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
