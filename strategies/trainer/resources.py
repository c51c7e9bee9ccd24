"""Resources of a training node as Trainer merges and counts them.

Trainer counts a GPU by finding "gpu" in a resource name (`pkg/runtime/runtime.go` GetNumGPUPerNode), and looks at
`resourcesPerNode` alone when it is set, although the pod gets the merge of it with the runtime's resources. It does not
see MIG slices or DRA claims. What a pod really gets is counted in `muster.strategies.platform.devices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.strategies.documents import decoding, model, names, quantities
from muster.strategies.documents.model import Resources, Trainer
from muster.strategies.documents.runtimes import Runtime

__all__ = [
    "AUTO",
    "count_cpus",
    "count_gpus",
    "count_processes",
    "effective",
    "merge_resources",
    "of_replicated_job",
    "takes",
    "written",
]

AUTO = "auto"
"""What Trainer writes when it finds GPUs: torchrun then starts one process per visible device."""


_CPU = "cpu"
"""What a runtime or a job of an older Trainer may write instead of a number, beside `auto` and `gpu`."""


def effective(trainer: Trainer, runtime: Runtime | None) -> Trainer:
    """Return `spec.trainer` as the newest Trainer would write it, with the process count that its runtime sets.

    `mlPolicy.torch.numProcPerNode` of a runtime and words in place of a number are of older Trainers.
    """
    written = trainer.num_proc_per_node
    if type(written) is int:
        return trainer
    policy = runtime.processes if runtime is not None and written is None else None
    if policy is None and written is None:
        return trainer
    found = written if policy is None else policy
    if found == _CPU and runtime is not None:
        found = count_processes(trainer, runtime.resources, runtime)
    return msgspec.structs.replace(trainer, num_proc_per_node=found if type(found) is int else None)


def count_processes(trainer: Trainer, resources: Resources, runtime: Runtime | None = None) -> int | str:
    """Return what Trainer writes into PET_NPROC_PER_NODE: a number, or a word such as `AUTO`.

    Source: trainer `pkg/runtime/framework/plugins/torch/torch.go` EnforceMLPolicy.

    Args:
        trainer: `spec.trainer` of the TrainJob.
        resources: of the runtime's training container.
        runtime: the runtime, for its version and for the number that one of an older Trainer may set.
    """
    explicit, override = trainer.num_proc_per_node, trainer.resources_per_node
    if explicit is None and runtime is not None:
        explicit = runtime.processes
    if runtime is not None and not runtime.version.counts_runtime:
        return _of_the_job_alone(AUTO if explicit is None else explicit, override)
    if explicit is not None and explicit not in (AUTO, _CPU):
        return explicit
    asked = resources if override is None else override
    claims = runtime is not None and runtime.version.counts_claims and trainer.resource_claims_per_node
    return AUTO if explicit != _CPU and (claims or count_gpus(asked)) else count_cpus(asked)


def _of_the_job_alone(wanted: int | str, override: Resources | None) -> int | str:
    """Count as the first Trainer: by the job's limits where they name CPUs alone, else by its requests, 1 without them.

    Source: trainer `torch.go` calculateNumProcPerNode.
    """
    if override is None:
        return wanted
    for amounts in (override.limits, override.requests):
        by_cpu = wanted == _CPU and "cpu" in amounts
        by_cpu = by_cpu or (wanted == AUTO and not any("gpu" in name.lower() for name in amounts))
        if amounts and by_cpu:
            return max(1, quantities.count(amounts.get("cpu")))
    return 1 if not override.requests or wanted == _CPU else wanted


def count_gpus(resources: Resources) -> int:
    """Return the number of GPUs that Trainer counts: the first resource with "gpu" in its name, requests first.

    Where several match, Trainer's choice follows Go's map order and varies; the first one in the document is returned.
    """
    for amounts in (resources.requests, resources.limits):
        for name, amount in amounts.items():
            if "gpu" in name.lower():
                if found := quantities.count(amount):
                    return found
                break
    return 0


def count_cpus(resources: Resources) -> int:
    """Return Trainer's process count for a job without GPUs: CPU requests, else limits, rounded up, at least 1."""
    for amounts in (resources.requests, resources.limits):
        if count := quantities.count(amounts.get("cpu")):
            return max(1, count)
    return 1


def merge_resources(runtime: Resources, override: Resources | None, of: Runtime | None = None) -> Resources:
    """Merge `resourcesPerNode` over the runtime's, as the pods get it; an override drops the runtime's claims.

    Source: trainer `pkg/runtime/core/trainingruntime.go` newRuntimeInfo (limits and requests only); before v2.3
    `plugins/jobset/builder.go` Trainer, which takes the job's alone.
    """
    if override is None:
        return runtime
    if of is not None and not of.version.merges:
        return Resources(override.limits, override.requests) if override.limits or override.requests else runtime
    return Resources({**runtime.limits, **override.limits}, {**runtime.requests, **override.requests})


def of_replicated_job(replicated: Mapping[str, Any], trainer: Trainer, runtime: Runtime) -> Mapping[str, Any]:
    """Return a replicated job of a runtime with `resourcesPerNode` in its container `node`, where Trainer puts it.

    Args:
        replicated: an entry of `replicatedJobs` of the runtime's template.
        trainer: `spec.trainer` of the TrainJob.
        runtime: the runtime, for its `mlPolicy` and its version.
    """
    override = trainer.resources_per_node
    job = decoding.read(replicated, model.ReplicatedJob)
    if override is None or override == Resources() or not takes(job, runtime.policy):
        return replicated
    made: dict[str, Any] = {**replicated}
    node = made
    for member in ("template", "spec", "template", "spec"):
        node[member] = {**(node.get(member) or {})}
        node = node[member]
    node["containers"] = [*(node.get("containers") or ())]
    for index, container in enumerate(job.pod.containers):
        if container.name == names.CONTAINER_NODE:
            merged = written(merge_resources(container.resources, override, runtime))
            node["containers"][index] = {**node["containers"][index], "resources": merged}
    return made


def written(resources: Resources) -> dict[str, Any]:
    """Return `resources` as a document."""
    made: dict[str, Any] = msgspec.to_builtins(resources)
    return {member: value for member, value in made.items() if value}


def takes(replicated: model.ReplicatedJob, policy: model.MLPolicy) -> bool:
    """Whether `resourcesPerNode` and `env` of a TrainJob go into a replicated job of its runtime."""
    if replicated.labels.get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER:
        return policy != model.MLPolicy()
    return policy.mpi is not None and bool(policy.mpi.run_launcher_as_node) and replicated.name == names.CONTAINER_NODE
