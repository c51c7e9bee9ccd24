"""Resources of a training node as Trainer merges and counts them.

Trainer counts a GPU by finding "gpu" in a resource name (`pkg/runtime/runtime.go` GetNumGPUPerNode), and looks at
`resourcesPerNode` alone when it is set, although the pod gets the merge of it with the runtime's resources. It does not
see MIG slices or DRA claims. What a pod really gets is counted in `muster.strategies.platform.devices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from muster.strategies.documents import names, pods, quantities, trainjobs
from muster.strategies.documents.pods import ResourceRequirements
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.documents.trainjobs import Trainer

__all__ = [
    "AUTO",
    "count_cpus",
    "count_gpus",
    "count_processes",
    "effective",
    "merge_resources",
    "of_replicated_job",
    "takes",
]

AUTO = "auto"
"""What Trainer writes when it finds GPUs: torchrun then starts one process per visible device."""


_CPU = "cpu"
"""What a runtime or a job of an older Trainer may write instead of a number, beside `auto` and `gpu`."""


def effective(trainjob: Mapping[str, Any], runtime: Runtime | None) -> Trainer:
    """Return `spec.trainer` as the newest Trainer would write it, with the process count that its runtime sets.

    `mlPolicy.torch.numProcPerNode` of a runtime and words in place of a number are of older Trainers.
    """
    trainer = trainjobs.trainer(trainjob)
    written = trainer.get("numProcPerNode")
    if type(written) is int:
        return trainer
    policy = runtime.processes if runtime is not None and written is None else None
    if policy is None and written is None:
        return trainer
    inherited = runtime.trainer.raw.get("resources") if runtime is not None and runtime.trainer else None
    found = written if policy is None else policy
    if found == _CPU and runtime is not None:
        found = count_processes(trainer, inherited or {}, runtime)
    others = {member: value for member, value in trainer.items() if member != "numProcPerNode"}
    return cast("Trainer", {**others, "numProcPerNode": found} if type(found) is int else others)


def count_processes(trainer: Trainer, resources: ResourceRequirements, runtime: Runtime | None = None) -> int | str:
    """Return what Trainer writes into PET_NPROC_PER_NODE: a number, or a word such as `AUTO`.

    Source: trainer `pkg/runtime/framework/plugins/torch/torch.go` EnforceMLPolicy.

    Args:
        trainer: `spec.trainer` of the TrainJob.
        resources: of the runtime's training container.
        runtime: the runtime, for its version and for the number that one of an older Trainer may set.
    """
    explicit: int | str | None = trainer.get("numProcPerNode")
    override = trainer.get("resourcesPerNode")
    if explicit is None and runtime is not None:
        explicit = runtime.processes
    if runtime is not None and not runtime.version.counts_runtime:
        return _of_the_job_alone(AUTO if explicit is None else explicit, override)
    if explicit is not None and explicit not in (AUTO, _CPU):
        return explicit
    asked = resources if override is None else override
    claims = runtime is not None and runtime.version.counts_claims and trainer.get("resourceClaimsPerNode")
    return AUTO if explicit != _CPU and (claims or count_gpus(asked)) else count_cpus(asked)


def _of_the_job_alone(wanted: int | str, override: ResourceRequirements | None) -> int | str:
    """Count as the first Trainer: by the job's limits where they name CPUs alone, else by its requests, 1 without them.

    Source: trainer `torch.go` calculateNumProcPerNode.
    """
    if override is None:
        return wanted
    for amounts in (override.get("limits"), override.get("requests")):
        names = amounts or {}
        by_cpu = wanted == _CPU and "cpu" in names
        by_cpu = by_cpu or (wanted == AUTO and not any("gpu" in name.lower() for name in names))
        if amounts and by_cpu:
            return max(1, quantities.count(names.get("cpu")))
    return 1 if not override.get("requests") or wanted == _CPU else wanted


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


def merge_resources(
    runtime: ResourceRequirements, override: ResourceRequirements | None, of: Runtime | None = None
) -> ResourceRequirements:
    """Merge `resourcesPerNode` over the runtime's, as the pods get it; an override drops the runtime's claims.

    Source: trainer `pkg/runtime/core/trainingruntime.go` newRuntimeInfo (limits and requests only); before v2.3
    `plugins/jobset/builder.go` Trainer, which takes the job's alone.
    """
    if override is None:
        return runtime
    if of is not None and not of.version.merges:
        written = {part: override[part] for part in ("limits", "requests") if override.get(part)}
        return cast("ResourceRequirements", written or runtime)
    return {
        "limits": {**(runtime.get("limits") or {}), **(override.get("limits") or {})},
        "requests": {**(runtime.get("requests") or {}), **(override.get("requests") or {})},
    }


def of_replicated_job(replicated: Mapping[str, Any], trainer: Trainer, runtime: Runtime) -> Mapping[str, Any]:
    """Return a replicated job of a runtime with `resourcesPerNode` in its container `node`, where Trainer puts it.

    Args:
        replicated: an entry of `replicatedJobs` of the runtime's template.
        trainer: `spec.trainer` of the TrainJob.
        runtime: the runtime, for its `mlPolicy` and its version.
    """
    override = trainer.get("resourcesPerNode")
    if not override or not takes(replicated, runtime.ml_policy):
        return replicated
    outer = replicated.get("template") or {}
    inner = outer.get("spec") or {}
    pod = inner.get("template") or {}
    spec = pod.get("spec") or {}
    own = [_with(each, override, runtime) for each in spec.get("containers") or ()]
    pod = {**pod, "spec": {**spec, "containers": own}}
    return {**replicated, "template": {**outer, "spec": {**inner, "template": pod}}}


def takes(replicated: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Whether `resourcesPerNode` and `env` of a TrainJob go into a replicated job of its runtime."""
    if pods.labels(replicated).get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER:
        return bool(policy)
    return bool((policy.get("mpi") or {}).get("runLauncherAsNode")) and replicated.get("name") == names.CONTAINER_NODE


def _with(container: Mapping[str, Any], override: ResourceRequirements, runtime: Runtime) -> Mapping[str, Any]:
    if container.get("name") != names.CONTAINER_NODE:
        return container
    present = cast("ResourceRequirements", container.get("resources") or {})
    return {**container, "resources": merge_resources(present, override, runtime)}
