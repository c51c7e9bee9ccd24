"""What Trainer's torch plugin writes into a JobSet.

Source: trainer `pkg/runtime/framework/plugins/torch/torch.go` EnforceMLPolicy. Its order is kept: the runtime's
env, the TrainJob's, then PET_*, each replaced where it stands. Only the command `tune run` is completed, with recipe
and config, and it gets no PET_MASTER_*.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.strategies.documents import decoding, model, names, quantities, trainjobs
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.trainer import merges, recipes, resources

__all__ = ["containers", "inject", "step", "trainer_containers"]


def inject(spec: Mapping[str, Any], trainjob: Mapping[str, Any], runtime: Runtime, name: str) -> None:
    """Write env, port and, for `tune run`, the command into the JobSetSpec of a torch runtime.

    Args:
        spec: a JobSetSpec with counts, merged resources and the TrainJob's overrides; its containers are changed.
        trainjob: the TrainJob; its `spec.trainer` decides.
        runtime: a runtime with `mlPolicy.torch`.
        name: name of the TrainJob and of its JobSet.
    """
    trainer = trainjobs.trainer(trainjob)
    typed = decoding.read(trainjob, model.TrainJob).spec.trainer
    asked = runtime.resources if typed.resources_per_node is None else typed.resources_per_node
    nodes, gpus = _nodes(spec), resources.count_gpus(asked)
    processes = str(resources.count_processes(typed, runtime.resources, runtime))
    workers, masters = _workers(nodes, processes), _masters(name)
    # The Go code compares with exactly these two words and does not read the runtime's labels.
    tune = list(trainer.get("command") or ()) == ["tune", "run"]
    jobs = spec.get("replicatedJobs") or ()
    has_section = (trainjob.get("spec") or {}).get("trainer") is not None
    for container in (each for job in jobs for each in trainer_containers(job) if has_section):
        if tune:
            endpoint = f"--rdzv_endpoint={name}-{names.CONTAINER_NODE}-0-0.{name}:{names.DEFAULT_PORT}"
            container["command"] = _tune_command(trainer, runtime, (nodes, processes, gpus), endpoint)
        _add_env(container, workers if tune else workers + masters)
        _add_env(container, list(trainer.get("env") or ()))
        ports = container.get("ports") or []
        container["ports"] = merges.upsert(ports, [{"containerPort": names.DEFAULT_PORT}], "containerPort")
    for target in _targets(spec, runtime):
        _add_env(target, workers + masters)


def containers(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of a replicated job, as the document holds them."""
    spec = (job.get("template") or {}).get("spec") or {}
    return ((spec.get("template") or {}).get("spec") or {}).get("containers") or []


def step(job: Mapping[str, Any]) -> str:
    """Return the step of a TrainJob that a replicated job is, as its label says; "" where none says it."""
    return decoding.read(job, model.ReplicatedJob).labels.get(names.ANCESTOR_LABEL, "")


def trainer_containers(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the containers that `spec.trainer` applies to: those called `node`, in the job labelled `trainer`."""
    if step(job) != names.ANCESTOR_TRAINER:
        return []
    return [container for container in containers(job) if container.get("name") == names.CONTAINER_NODE]


def _add_env(container: dict[str, Any], entries: list[Any]) -> None:
    if entries:
        container["env"] = merges.upsert(container.get("env") or [], entries, "name")


def _nodes(spec: Mapping[str, Any]) -> int:
    for job in spec.get("replicatedJobs") or ():
        if step(job) == names.ANCESTOR_TRAINER:
            return int(job["template"]["spec"]["parallelism"])
    return 1


def _workers(nodes: int, processes: str) -> list[dict[str, Any]]:
    index = {"fieldRef": {"fieldPath": names.COMPLETION_INDEX_FIELD}}
    return [
        {"name": names.PET_NNODES, "value": str(nodes)},
        {"name": names.PET_NPROC_PER_NODE, "value": processes},
        {"name": names.PET_NODE_RANK, "valueFrom": index},
    ]


def _masters(name: str) -> list[dict[str, Any]]:
    return [
        {"name": names.PET_MASTER_ADDR, "value": f"{name}-{names.CONTAINER_NODE}-0-0.{name}"},
        {"name": names.PET_MASTER_PORT, "value": str(names.DEFAULT_PORT)},
    ]


def _tune_command(trainer: Mapping[str, Any], runtime: Runtime, size: tuple[int, str, int], endpoint: str) -> list[str]:
    """Return Trainer's command for torchtune; unlike Muster's it has no dataset."""
    nodes, processes, gpus = size
    tunes = runtime.version.tunes
    explicit = quantities.count(processes) if processes.lstrip("-").isdigit() else None
    recipe = recipes.choose(recipes.model_of(runtime.name), nodes, explicit, gpus, trainer.get("args") or (), tunes)
    several = nodes > 1 or (gpus > 1 if explicit is None else explicit > 1)
    several = several or (tunes == "nothing" and explicit != 1)
    inherited = (runtime.trainer.container.command if runtime.trainer else None) or ()
    kept = recipes.IMMUTABLE if tunes != "nothing" else recipes.IMMUTABLE - {"tokenizer.merges_file"}
    paths = [word for word in inherited if word.partition("=")[0] in kept]
    return ["tune", "run", *([endpoint] if several else []), recipe.name, "--config", recipe.config, *paths]


def _targets(spec: Mapping[str, Any], runtime: Runtime) -> list[dict[str, Any]]:
    """Return the containers that the runtime's `envInjection` names."""
    targets = runtime.policy.torch.env_injection.targets if runtime.policy.torch else ()
    wanted = {(target.job_name, container) for target in targets for container in target.container_names}
    found = []
    for job in spec.get("replicatedJobs") or ():
        pod = job["template"]["spec"].get("template", {}).get("spec") or {}
        every = [*(pod.get("initContainers") or ()), *containers(job)]
        found += [each for each in every if (job.get("name"), each.get("name")) in wanted]
    return found
