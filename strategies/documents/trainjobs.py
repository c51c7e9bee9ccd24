"""TrainJob v1alpha1 (trainer `pkg/apis/trainer/v1alpha1/trainjob_types.go`): its runtime and its trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.strategies.documents import decoding, names
from muster.strategies.documents.model import RuntimeRef

__all__ = ["RUNTIME_KINDS", "is_supported", "runtime_ref", "trainer"]

RUNTIME_KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
"""The kinds that `spec.runtimeRef` may name; Trainer's webhook refuses others (`pkg/webhooks/trainjob_webhook.go`)."""


def runtime_ref(trainjob: Mapping[str, Any]) -> tuple[str, str]:
    """Return (kind, name) of the runtime; a missing kind is the CRD's default, a missing name is ""."""
    ref = _ref(trainjob)
    return ref.kind or RUNTIME_KINDS[0], ref.name


def is_supported(trainjob: Mapping[str, Any]) -> bool:
    """Whether `spec.runtimeRef` names something that Trainer can use as a runtime, if it exists."""
    kind, name = runtime_ref(trainjob)
    return bool(name) and kind in RUNTIME_KINDS and _ref(trainjob).api_group in (None, names.TRAINER_GROUP)


def trainer(trainjob: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `spec.trainer` as the document holds it, empty when it is missing."""
    return decoding.member(trainjob, "spec", "trainer")


def _ref(trainjob: Mapping[str, Any]) -> RuntimeRef:
    return decoding.read(decoding.member(trainjob, "spec", "runtimeRef"), RuntimeRef)
