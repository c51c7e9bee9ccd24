"""Resources of a training node as Trainer v2.3.0 merges and counts them.

Trainer counts a GPU by finding "gpu" in a resource name (`pkg/runtime/runtime.go` GetNumGPUPerNode), and looks at
`resourcesPerNode` alone when it is set, although the pod gets the merge of it with the runtime's resources. It does not
see MIG slices or DRA claims. What a pod really gets is counted in `strategies.platform.devices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from strategies.documents import names, pods, quantities
from strategies.documents.pods import ResourceRequirements
from strategies.documents.trainjobs import Trainer

__all__ = ["AUTO", "count_cpus", "count_gpus", "count_processes", "merge_resources", "of_replicated_job", "takes"]

AUTO = "auto"
"""What Trainer writes when it finds GPUs: torchrun then starts one process per visible device."""


def count_processes(trainer: Trainer, runtime: ResourceRequirements) -> int | str:
    """Return what Trainer writes into PET_NPROC_PER_NODE: a number, or `AUTO`.

    Source: trainer `pkg/runtime/framework/plugins/torch/torch.go` EnforceMLPolicy.

    Args:
        trainer: `spec.trainer` of the TrainJob.
        runtime: resources of the runtime's training container.
    """
    explicit, override = trainer.get("numProcPerNode"), trainer.get("resourcesPerNode")
    if explicit is not None:
        return explicit
    resources = runtime if override is None else override
    return AUTO if count_gpus(resources) else count_cpus(resources)


def count_gpus(resources: ResourceRequirements) -> int:
    """Return the number of GPUs that Trainer counts: the first resource with "gpu" in its name, requests first.

    Where several match, Trainer's choice follows Go's map order and varies; the first one in the document is returned.
    """
    for amounts in (resources.get("requests") or {}, resources.get("limits") or {}):
        for name, amount in amounts.items():
            if "gpu" in name.lower():
                if found := quantities.count(amount):
                    return found
                break
    return 0


def count_cpus(resources: ResourceRequirements) -> int:
    """Return Trainer's process count for a job without GPUs: CPU requests, else limits, rounded up, at least 1."""
    for amounts in (resources.get("requests") or {}, resources.get("limits") or {}):
        if count := quantities.count(amounts.get("cpu")):
            return max(1, count)
    return 1


def merge_resources(runtime: ResourceRequirements, override: ResourceRequirements | None) -> ResourceRequirements:
    """Merge `resourcesPerNode` over the runtime's, as the pods get it; an override drops the runtime's claims.

    Source: trainer `pkg/runtime/core/trainingruntime.go` newRuntimeInfo (limits and requests only).
    """
    if override is None:
        return runtime
    return {
        "limits": {**(runtime.get("limits") or {}), **(override.get("limits") or {})},
        "requests": {**(runtime.get("requests") or {}), **(override.get("requests") or {})},
    }


def of_replicated_job(replicated: Mapping[str, Any], trainer: Trainer, policy: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a replicated job of a runtime with `resourcesPerNode` in its container `node`, where Trainer puts it.

    Args:
        replicated: an entry of `replicatedJobs` of the runtime's template.
        trainer: `spec.trainer` of the TrainJob.
        policy: `mlPolicy` of the runtime.
    """
    override = trainer.get("resourcesPerNode")
    if not override or not takes(replicated, policy):
        return replicated
    outer = replicated.get("template") or {}
    inner = outer.get("spec") or {}
    pod = inner.get("template") or {}
    spec = pod.get("spec") or {}
    own = [_with(each, override) for each in spec.get("containers") or ()]
    pod = {**pod, "spec": {**spec, "containers": own}}
    return {**replicated, "template": {**outer, "spec": {**inner, "template": pod}}}


def takes(replicated: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Whether `resourcesPerNode` and `env` of a TrainJob go into a replicated job of its runtime."""
    if pods.labels(replicated).get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER:
        return bool(policy)
    return bool((policy.get("mpi") or {}).get("runLauncherAsNode")) and replicated.get("name") == names.CONTAINER_NODE


def _with(container: Mapping[str, Any], override: ResourceRequirements) -> Mapping[str, Any]:
    if container.get("name") != names.CONTAINER_NODE:
        return container
    present = cast("ResourceRequirements", container.get("resources") or {})
    return {**container, "resources": merge_resources(present, override)}
