"""The kinds that are migrated, as typed values; a member of a wrong type ends the migration of its document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from muster.strategies.documents import decoding, model
from muster.strategies.documents.model import Anything

__all__ = [
    "Document",
    "Elastic",
    "OldJob",
    "OldReplica",
    "OldRuntime",
    "OldTorchPolicy",
    "OldTrainJob",
    "OldTrainJobSpec",
    "Patched",
    "Raw",
    "SchedulingPolicy",
    "Spec",
    "Unmigrated",
    "read",
]

Raw: TypeAlias = Mapping[str, Any]
"""A document that is migrated."""
Document: TypeAlias = dict[str, Any]
"""What is written, and the pod templates from which it is written: they may have members that nothing here reads."""
_Kind = TypeVar("_Kind")


class Unmigrated(Exception):  # noqa: N818  # a document that stays as it is, not a defect of this program
    """A document that has no TrainJob; the message names the field and what to do."""


def read(document: Raw, kind: type[_Kind], at: str = "") -> _Kind:
    """Return a document, or a part of one that is `at` this place, as a value.

    Raises:
        Unmigrated: a member has another type.
    """
    value, misfits = decoding.convert(document, kind)
    for each in misfits[:1]:
        wanted = each.message.rpartition("must be")[2].partition(";")[0]
        raise Unmigrated(f"{f'{at}{each.field}'.removesuffix('.')}: must be{wanted}; correct it, then migrate")
    return value


class _Object(Struct, frozen=True, rename="camel"):
    """A part of a document; what it holds is only read."""


class SchedulingPolicy(_Object, frozen=True):
    """`spec.runPolicy.schedulingPolicy`; that there is one counts too."""

    queue: str = ""
    priority_class: str = ""
    schedule_timeout_seconds: int | None = None
    min_available: int | None = None


class _Pair(_Object, frozen=True):
    key: str = ""
    value: str = ""


class Elastic(_Object, frozen=True):
    """`spec.elasticPolicy` of a PyTorchJob; that there is one counts too."""

    rdzv_backend: str = ""
    rdzv_host: str = ""
    rdzv_port: int | None = None
    rdzv_id: str | None = None
    rdzv_conf: tuple[_Pair, ...] = ()
    max_restarts: int | None = None
    standalone: bool = False
    n_proc_per_node: int | None = None


class _RunPolicy(_Object, frozen=True):
    suspend: bool | None = None
    active_deadline_seconds: int | None = None
    managed_by: str | None = None
    backoff_limit: int | None = None
    clean_pod_policy: str = ""
    scheduling_policy: Anything = {}


class OldReplica(_Object, frozen=True):
    """One entry of `pytorchReplicaSpecs` and its like."""

    replicas: int = 1
    restart_policy: str = ""
    template: model.PodTemplate = model.PodTemplate()


class Spec(_Object, frozen=True):
    """`spec` of a job of any of the old operators."""

    run_policy: _RunPolicy = _RunPolicy()
    clean_pod_policy: str = ""
    elastic_policy: Anything = {}
    nproc_per_node: str = ""
    success_policy: str = ""
    slots_per_worker: int = 1
    mpi_implementation: str = ""
    run_launcher_as_worker: bool = False
    ssh_auth_mount_path: str = ""


class OldJob(_Object, frozen=True):
    """A job of one of the old operators."""

    api_version: str = ""
    kind: str = ""
    metadata: model.ObjectMeta = model.ObjectMeta()
    spec: Spec = Spec()


class _OldTrainer(_Object, frozen=True):
    num_proc_per_node: int | str | None = None
    resources_per_node: Any = None


class _OldOverride(_Object, frozen=True):
    target_jobs: tuple[model.Named, ...] = ()


class OldTrainJobSpec(_Object, frozen=True):
    """`spec` of a TrainJob; members that stay as they are may be anything."""

    runtime_ref: model.Named = model.Named()
    trainer: _OldTrainer = _OldTrainer()
    labels: Anything = {}
    annotations: Anything = {}
    pod_spec_overrides: tuple[_OldOverride, ...] = ()
    pod_template_overrides: tuple[_OldOverride, ...] = ()


class Patched(_Object, frozen=True):
    """What `spec` of a TrainJob has of today's Trainer, where older members are put beside it."""

    runtime_patches: tuple[Anything, ...] = ()


class OldTrainJob(_Object, frozen=True):
    """A TrainJob, which may have what older Trainers know."""

    spec: OldTrainJobSpec = OldTrainJobSpec()


class OldTorchPolicy(_Object, frozen=True):
    """`spec.mlPolicy.torch` of a runtime."""

    num_proc_per_node: int | str | None = None
    elastic_policy: Anything | None = None


class _OldMLPolicy(_Object, frozen=True):
    torch: OldTorchPolicy = OldTorchPolicy()


class _OldRuntimeSpec(_Object, frozen=True):
    ml_policy: _OldMLPolicy = _OldMLPolicy()


class OldRuntime(_Object, frozen=True):
    """A runtime, which may have what older Trainers know."""

    metadata: model.Named = model.Named()
    spec: _OldRuntimeSpec = _OldRuntimeSpec()
