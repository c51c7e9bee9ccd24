"""TrainingRuntime and ClusterTrainingRuntime (trainer `pkg/apis/trainer/v1alpha1/trainingruntime_types.go`).

Versions of Kubeflow Trainer that clusters have, and in what each makes other JobSets of the same job.

`strategies/upstream/trainer` has a folder for each: which members it knows (`schemas.json`), and what its controller
does with them (`behaviour.json`). `tests/golden` holds what the code of each version answers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, cast

from msgspec import Struct, field

from muster.strategies import upstream
from muster.strategies.documents import decoding, model, names, pods
from muster.strategies.documents.paths import Path

__all__ = ["NEWEST", "VERSIONS", "Runtime", "Source", "Version"]


class Version(Struct, frozen=True):
    """One minor release.

    Attributes:
        name: its minor version, or `next` for what is merged upstream and not released.
        release: the one that was read, with a v; `next` for that.
        patches: the member of a TrainJob's spec that changes the pods of its runtime.
        mark: a member of the TrainJob that this version has and the one before it has not: names from its spec, with
            dots between.
        merges: whether `resourcesPerNode` is laid over the runtime's resources; else it takes their place.
        counts_runtime: whether processes are counted by the runtime's resources where a job has none of its own.
        counts_claims: whether `resourceClaimsPerNode` is there, and GPUs of claims are counted (KEP-2782).
        tunes: how the arguments of `tune run` say LoRA and QLoRA: by the values of items, by their names alone, or
            not at all.
    """

    name: str
    release: str
    patches: str
    mark: str
    merges: bool
    counts_runtime: bool
    counts_claims: bool
    tunes: Literal["values", "names", "nothing"]

    def __str__(self) -> str:
        """As messages call it."""
        return "the next Trainer" if self.name == "next" else f"Trainer {self.name}"


class _Behaviour(TypedDict):
    patches: str
    mark: str
    merges: bool
    counts_runtime: bool
    counts_claims: bool
    tunes: Literal["values", "names", "nothing"]


def _version(name: str, folder: str) -> Version:
    behaviour = cast("_Behaviour", upstream.data("trainer", "behaviour", folder))
    return Version(name, folder if folder == name else f"v{folder}", **behaviour)


def _minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


VERSIONS: Mapping[str, Version] = {
    _minor(folder): _version(_minor(folder), folder) for folder in (*upstream.versions("trainer"), "next")
}
"""By name, the oldest first."""

NEWEST = VERSIONS[_minor(upstream.shipped("trainer"))]
"""The newest release, which is meant where nothing says which one is."""


Source = Literal["snapshot", "live", "label", "launch"]


class Runtime(Struct, frozen=True, dict=True):
    """The runtime that governs a job, and where it was read from.

    Attributes:
        document: the raw runtime.
        source: `snapshot` (frozen by Trainer for this job) or `live`; `label` when a JobSet has no runtime but a
            framework label of its own (the document then holds only that label); `launch` when it has not even that,
            and is judged from files as what its launch is: then Muster adds nothing to it.
        bare: the runtime without the patches of a TrainJob that are merged into `document`; None where none are.
        written: places in `document` that such a patch wrote, each with its place in the TrainJob.
        version: of the Trainer that makes JobSets of it.
    """

    document: Mapping[str, Any]
    source: Source
    bare: Mapping[str, Any] | None = None
    written: Mapping[Path, Path] = field(default_factory=dict)
    version: Version = NEWEST

    @functools.cached_property
    def value(self) -> model.Runtime:
        """The runtime as a typed value."""
        return decoding.read(self.document, model.Runtime)

    @property
    def kind(self) -> str:
        """`ClusterTrainingRuntime` or `TrainingRuntime`."""
        return str(self.document.get("kind", ""))

    @property
    def name(self) -> str:
        """`metadata.name`; torchtune's names are semantic (`torchtune-llama3.2-1b`)."""
        return self.value.metadata.name

    @functools.cached_property
    def framework(self) -> str | None:
        """The label `trainer.kubeflow.org/framework` on the runtime itself; the template's labels do not count."""
        return self.value.metadata.labels.get(names.FRAMEWORK_LABEL) or None

    @functools.cached_property
    def policy(self) -> model.MLPolicy:
        """`spec.mlPolicy`: `numNodes` and one source (`torch`, `mpi`, `jax`, ...)."""
        return self.value.spec.ml_policy

    @functools.cached_property
    def is_torch(self) -> bool:
        """Whether Trainer's torch plugin injects PET_* for this runtime; an empty `torch` counts."""
        return self.policy.torch is not None

    @functools.cached_property
    def processes(self) -> int | str | None:
        """`spec.mlPolicy.torch.numProcPerNode`, a number or a word, which a runtime of an older Trainer may have."""
        return self.policy.torch.num_proc_per_node if self.policy.torch else None

    @functools.cached_property
    def trainer(self) -> pods.Place | None:
        """The training container of the template."""
        starts = names.LAUNCHER if self.policy.mpi is not None else ""
        return pods.trainer(self.document, ("spec", "template", "spec"), starts)

    @property
    def is_unlabelled(self) -> bool:
        """Whether a training container was found by its name alone, so that Trainer changes nothing in it."""
        place = self.trainer
        return place is not None and place.job.labels.get(names.ANCESTOR_LABEL) != names.ANCESTOR_TRAINER

    @property
    def resources(self) -> model.Resources:
        """`resources` of the training container; empty where there is none."""
        return self.trainer.container.resources if self.trainer else model.Resources()

    @property
    def network(self) -> Mapping[str, Any]:
        """`spec.template.spec.network` as the document holds it."""
        template = (self.document.get("spec") or {}).get("template") or {}
        return (template.get("spec") or {}).get("network") or {}

    @functools.cached_property
    def labels(self) -> Mapping[str, str]:
        """Labels of the runtime, over those of its template (the template's reach the JobSet)."""
        return {**self.value.spec.template.metadata.labels, **self.value.metadata.labels}

    @functools.cached_property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the runtime, over those of its template (the template's reach the JobSet)."""
        return {**self.value.spec.template.metadata.annotations, **self.value.metadata.annotations}
