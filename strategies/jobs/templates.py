"""Templates: each replicated job of a JobSet with the document around it, as claims and placement read it.

For a TrainJob they are those of its runtime, with the TrainJob's patches (`trainer.runtime_patches`) and resources
applied. So the person who applies the TrainJob learns why the JobSet would be refused; the answer to Trainer's own
request reaches no person.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from muster.strategies.documents import decoding, model, names, paths
from muster.strategies.documents.findings import Finding, quoted
from muster.strategies.documents.paths import Absent, Path
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.jobs import containers
from muster.strategies.jobs.jobs import Job, once_for_all
from muster.strategies.trainer import resources, runtime_patches

__all__ = ["Template", "find_spec", "find_template", "is_of_job", "list_templates", "placed"]

_POD = ("template", "spec", "template")


class Template(Struct, frozen=True, dict=True):
    """One replicated job.

    Attributes:
        document: the document that holds it.
        raw: the replicated job as the document holds it.
        path: its place in `document`.
        identify: tells what a command line starts.
        trainjob: the TrainJob whose runtime holds it, None for a JobSet.
        runtime: that runtime.
    """

    document: Mapping[str, Any]
    raw: Mapping[str, Any]
    path: Path
    identify: containers.Identify = containers.unknown
    trainjob: Mapping[str, Any] | None = None
    runtime: Runtime | None = None

    @property
    def pod_path(self) -> Path:
        """Where its pod spec is."""
        return (*self.path, *_POD, "spec")

    @functools.cached_property
    def job(self) -> model.ReplicatedJob:
        """The replicated job."""
        return decoding.read(self.raw, model.ReplicatedJob)

    @functools.cached_property
    def pod(self) -> model.PodSpec:
        """Its pod spec, empty when it is missing."""
        return self.job.pod

    @functools.cached_property
    def raw_spec(self) -> Mapping[str, Any]:
        """Its pod spec as the document holds it."""
        return decoding.member(self.raw, *_POD, "spec")

    @property
    def is_initializer(self) -> bool:
        """Whether Trainer downloads a dataset or a model with it, before the training starts."""
        return self.job.labels.get(names.ANCESTOR_LABEL) in ("dataset-initializer", "model-initializer")

    @functools.cached_property
    def main(self) -> tuple[Path, model.Container] | None:
        """Path and value of the container that does the work."""
        index = self._main()
        return None if index is None else ((*self.pod_path, "containers", index), self.pod.containers[index])

    @property
    def containers(self) -> Iterator[tuple[Path, model.Container]]:
        """Its containers and its init containers, each with its place in the pod spec."""
        for member, every in (("containers", self.pod.containers), ("initContainers", self.pod.init_containers)):
            for index, container in enumerate(every):
                yield (member, index), container

    def _main(self) -> int | None:
        own = self.pod.containers
        if self.job.labels.get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER:
            named = (index for index, each in enumerate(own) if each.name == names.CONTAINER_NODE)
            return next(named, 0 if own else None)
        return containers.choose(self.pod, self.identify)

    def metadata(self, member: Literal["labels", "annotations"]) -> Iterator[tuple[Mapping[str, str], Path]]:
        """Yield its `labels` or `annotations` and their path, those of the pod template first, then the Job's."""
        yield getattr(self.job.template.spec.template.metadata, member), (*self.path, *_POD, "metadata", member)
        yield getattr(self.job.template.metadata, member), (*self.path, "template", "metadata", member)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of its pods."""
        return self.job.template.spec.template.metadata.annotations

    def field(self, *inside: str | int) -> str:
        """Return the field path of the place `inside` the pod spec, or in the patch that wrote it."""
        return self.locate((*self.pod_path, *inside))

    def locate(self, path: Path) -> str:
        """Return the field path of a place in the document, or in the patch of a TrainJob that wrote it."""
        patched = runtime_patches.find(self.runtime, path) if self.runtime is not None else None
        return paths.field(self.document, path) if patched is None else paths.field(self.trainjob, patched)


@once_for_all
def list_templates(job: Job) -> Sequence[Template]:
    """Return the replicated jobs of a JobSet, or those that the JobSet of a TrainJob will have."""
    document, path = find_spec(job)
    every = enumerate(decoding.member(document, *path).get("replicatedJobs") or ())
    if job.kind == "JobSet":
        return [Template(document, each, (*path, "replicatedJobs", n), job.identify) for n, each in every]
    runtime = job.runtime
    if runtime is None:
        return []
    made = ((n, resources.of_replicated_job(each, job.trainer, runtime)) for n, each in every)
    return [
        Template(document, each, (*path, "replicatedJobs", n), job.identify, job.document, runtime) for n, each in made
    ]


def find_template(job: Job, path: Path) -> Template | None:
    """Return the replicated job at `path`; of a JobSet, without looking at the others."""
    if job.kind != "JobSet":
        return next((each for each in list_templates(job) if each.path == path), None)
    found = paths.lookup(job.document, path)
    return None if isinstance(found, Absent) else Template(job.document, found, path, job.identify)


def find_spec(job: Job) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the document that holds the JobSetSpec of a job, and its place there: the job's own, or its runtime's."""
    if job.kind == "JobSet":
        return job.document, ("spec",)
    return (job.runtime.document if job.runtime is not None else {}), ("spec", "template", "spec")


def placed(job: Job, finding: Finding) -> Finding:
    """Report a finding about the pods of a TrainJob where the TrainJob wrote it: in its patch, else at its runtime."""
    if is_of_job(job, finding.field) or job.runtime is None:
        return finding
    value = "" if finding.value is None else f"{quoted(finding.value)}: "
    message = f"in the pods of this runtime, {finding.field}: {value}{finding.message}"
    return Finding(finding.severity, "spec.runtimeRef.name", job.runtime.name, message, finding.rule)


def is_of_job(job: Job, field: str) -> bool:
    """Whether the field of a template is one of the job's own document, and not of its runtime."""
    return job.kind == "JobSet" or job.runtime is None or field.startswith(runtime_patches.FIELDS)
