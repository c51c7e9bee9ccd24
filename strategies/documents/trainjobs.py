"""TrainJob v1alpha1 (trainer `pkg/apis/trainer/v1alpha1/trainjob_types.go`): the members that Muster reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast

from muster.strategies.documents import names
from muster.strategies.documents.pods import EnvVar, ResourceRequirements

__all__ = ["RUNTIME_KINDS", "RuntimeRef", "Trainer", "is_supported", "runtime_ref", "trainer"]

RUNTIME_KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
"""The kinds that `spec.runtimeRef` may name; Trainer's webhook refuses others (`pkg/webhooks/trainjob_webhook.go`)."""


class RuntimeRef(TypedDict, total=False):
    """`spec.runtimeRef`; kind defaults to ClusterTrainingRuntime."""

    name: str
    kind: str
    apiGroup: str


class Trainer(TypedDict, total=False):
    """`spec.trainer`: immutable once the job exists; `command` and `args` replace the runtime's, they do not merge."""

    image: str
    command: list[str]
    args: list[str]
    env: list[EnvVar]
    numNodes: int
    numProcPerNode: int  # of older Trainers also a word, which `resources.effective` reads
    resourcesPerNode: ResourceRequirements
    resourceClaimsPerNode: list[dict[str, Any]]


def runtime_ref(trainjob: Mapping[str, Any]) -> tuple[str, str]:
    """Return (kind, name) of the runtime; a missing kind is the CRD's default, a missing name is ""."""
    ref = cast("RuntimeRef", (trainjob.get("spec") or {}).get("runtimeRef") or {})
    return ref.get("kind") or "ClusterTrainingRuntime", ref.get("name") or ""


def is_supported(trainjob: Mapping[str, Any]) -> bool:
    """Whether `spec.runtimeRef` names something that Trainer can use as a runtime, if it exists."""
    ref = cast("RuntimeRef", (trainjob.get("spec") or {}).get("runtimeRef") or {})
    kind, name = runtime_ref(trainjob)
    return bool(name) and kind in RUNTIME_KINDS and ref.get("apiGroup") in (None, names.TRAINER_GROUP)


def trainer(trainjob: Mapping[str, Any]) -> Trainer:
    """Return `spec.trainer`, empty when it is missing."""
    return cast("Trainer", (trainjob.get("spec") or {}).get("trainer") or {})
