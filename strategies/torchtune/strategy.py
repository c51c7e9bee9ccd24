"""The torchtune strategy: what Trainer does for `tune run`, done for every job of a torchtune runtime.

Trainer v2.3.0 recognises torchtune by a TrainJob's command being exactly `tune run`. Here the runtime's label decides,
so a job without a command gets the same launch; and the dataset that the runtime names is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strategies import coordinators, devices, launches, names, registry, sites, topologies
from strategies.changes import Changes
from strategies.findings import Finding, error
from strategies.jobs import Job
from strategies.launches import Launcher
from strategies.torch.strategy import TorchFamily, unenforced
from strategies.torchtune import recipes

__all__ = ["TorchTuneStrategy"]

_ENDPOINT = "--rdzv_endpoint"


@registry.strategy
class TorchTuneStrategy(TorchFamily):
    """Serves `trainer.kubeflow.org/framework: torchtune`."""

    framework = "torchtune"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Complete `tune run`, or an absent command, with rendezvous, recipe, config and the runtime's paths."""
        self.prepare(job, changes)
        site = sites.of(job)
        if site is None or job.owner is not None:
            return
        launch = site.launch
        if job.kind == "TrainJob" and _is_bare(job):
            self._complete(job, changes, site)
        elif launch.launcher is Launcher.TUNE and launch.target == "run":
            self._add_endpoint(job, changes, site)
        else:
            for finding in unenforced(site, topologies.of(job), self.framework):
                changes.report(finding)

    def _complete(self, job: Job, changes: Changes, site: sites.Site) -> None:
        recipe, distributed = _recipe(job)
        runtime_command = _runtime_command(job)
        args = job.trainer.get("args") or ()
        endpoint = [f"{_ENDPOINT}={_rendezvous(job)}"] if distributed else []
        command = ["tune", "run", *endpoint, recipe.name, "--config", recipe.config]
        command += recipes.dataset_overrides(runtime_command, args) + recipes.overrides(runtime_command)
        reason = f"{topologies.of(job).size} of {recipes.model_of(_runtime_name(job))} take recipe {recipe.name}; paths and dataset are the runtime's"
        site.write(changes, command, site.args, rule="torchtune/recipe", reason=reason)

    def _add_endpoint(self, job: Job, changes: Changes, site: sites.Site) -> None:
        words = launches.parse(("torchrun", *site.argv[2:])).values
        if not topologies.of(job).is_distributed or "rdzv_endpoint" in words or len(site.command) < 2:
            return
        command = [*site.command[:2], f"{_ENDPOINT}={_rendezvous(job)}", *site.command[2:]]
        reason = "without a rendezvous endpoint, tune run starts each node alone"
        site.write(changes, command, site.args, rule="torchtune/rendezvous", reason=reason)

    def validate(self, job: Job) -> Iterable[Finding]:
        """Refuse what Trainer refuses for `tune run`, for every job of the runtime that gets its launch from it."""
        yield from super().validate(job)
        if job.kind == "TrainJob" and job.runtime is not None and (_is_bare(job) or _is_completed(job)):
            yield from _model_findings(job)
            yield from _immutable_findings(job)


def _is_bare(job: Job) -> bool:
    command = job.trainer.get("command")
    return not command or command == ["tune", "run"]


def _is_completed(job: Job) -> bool:
    recipe, _ = _recipe(job)
    return recipe.config in (job.trainer.get("command") or ())


def _recipe(job: Job) -> tuple[recipes.Recipe, bool]:
    """Return the recipe and whether processes have to meet, counting as Trainer will after `pin_processes`."""
    topology = topologies.of(job)
    counted = topologies.trainer_processes(job)
    explicit = job.trainer.get("numProcPerNode")
    if explicit is None and counted != topologies.AUTO:
        explicit = topology.processes
    gpus = _gpus(job) if counted == topologies.AUTO or job.trainer.get("numProcPerNode") else 0
    recipe = recipes.choose(
        recipes.model_of(_runtime_name(job)), topology.nodes, explicit, gpus, job.trainer.get("args") or ()
    )
    distributed = topology.nodes > 1 or (gpus > 1 if explicit is None else explicit > 1)
    return recipe, distributed


def _gpus(job: Job) -> int:
    override = job.trainer.get("resourcesPerNode")
    place = job.container
    resources = (place.container.get("resources") or {}) if place else {}
    return devices.counted_by_trainer(resources if override is None else override)


def _rendezvous(job: Job) -> str:
    coordinator = coordinators.of(job)
    if coordinator is None:
        return f"$({names.MASTER_ADDR}):$({names.MASTER_PORT})"
    return coordinator.endpoint


def _runtime_name(job: Job) -> str:
    return job.runtime.name if job.runtime else ""


def _runtime_command(job: Job) -> list[str]:
    place = job.runtime.trainer if job.runtime else None
    return list(place.container.get("command") or ()) if place else []


def _model_findings(job: Job) -> Iterator[Finding]:
    name, args, topology = _runtime_name(job), job.trainer.get("args") or (), topologies.of(job)
    model, rule = recipes.model_of(name), "torchtune/model"
    if model not in recipes.MODELS:
        message = f"no recipe for model {model!r}; the runtime's name must end in one of {_known_names()}"
        yield error("spec.runtimeRef.name", name, message, rule=rule)
    if topology.nodes > 1 and model != recipes.LLAMA3_3_70B:
        message = f"must be 1: torchtune trains {model} on one node only"
        yield error("spec.trainer.numNodes", topology.nodes, message, rule=rule)
    if topology.nodes > 1 and (recipes.uses_lora(args) or recipes.uses_qlora(args)):
        message = "must be 1: torchtune has no LoRA recipe for several nodes and would train the full model instead"
        yield error("spec.trainer.numNodes", topology.nodes, message, rule=rule)
    yield from _qlora_findings(job, model)


def _qlora_findings(job: Job, model: str) -> Iterator[Finding]:
    recipe, _ = _recipe(job)
    if not recipe.config.endswith(("_qlora", "_qlora_single_device")):
        return
    if model == recipes.QWEN2_5_1_5B:
        yield error(
            "spec.runtimeRef.name",
            _runtime_name(job),
            f"torchtune has no QLoRA config for {model}",
            rule="torchtune/qlora",
        )
    elif not recipe.single_device and model in recipes.MODELS - {recipes.LLAMA3_3_70B}:
        count = job.trainer.get("numProcPerNode")
        message = f"must be 1, on one GPU: torchtune has no distributed QLoRA config for {model}"
        yield error("spec.trainer.numProcPerNode", count, message, rule="torchtune/qlora")


def _immutable_findings(job: Job) -> Iterator[Finding]:
    for index, arg in enumerate(job.trainer.get("args") or ()):
        key = arg.partition("=")[0]
        if key in recipes.IMMUTABLE:
            message = f"{key} is managed by the runtime and must not be set here; take it out"
            yield error(f"spec.trainer.args[{index}]", arg, message, rule="torchtune/immutable")


def _known_names() -> str:
    return ", ".join(sorted(f"-{model.replace('_', '.').replace('/', '-').lower()}" for model in recipes.MODELS))
