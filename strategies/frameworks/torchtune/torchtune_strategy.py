"""The torchtune strategy does for every job of a torchtune runtime what Trainer does for `tune run`.

Trainer recognises torchtune only by the exact command `tune run` of a TrainJob. Here the runtime's label
decides, so a job without a command gets the same launch, and the dataset that the runtime names is kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from muster.strategies.changes.changes import Changes
from muster.strategies.documents.findings import Finding, Severity, error, warning
from muster.strategies.frameworks.torch import tune_launches
from muster.strategies.frameworks.torch.torch_strategy import TorchFamily, unenforced
from muster.strategies.frameworks.torchtune import rewrites
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import launches, sites, topologies
from muster.strategies.launches.launches import Launcher
from muster.strategies.trainer import recipes, resources

__all__ = ["TorchTuneStrategy"]


class TorchTuneStrategy(TorchFamily):
    """Serves `trainer.kubeflow.org/framework: torchtune`."""

    framework = "torchtune"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Complete `tune run`, or an absent command, with rendezvous, recipe, config and the runtime's paths."""
        self.prepare(job, changes)
        site = sites.find_site(job)
        if site is None or job.owner is not None:
            return
        if _is_bare(job):
            _complete(job, changes, site)
        elif rewrites.own(job) is not None or tune_launches.is_run(site.launch):
            rewrites.prefer_own(job, changes, site)
            site = sites.find_site(job) or site
            rewrites.add_endpoint(job, changes, site)
            for finding in tune_launches.alone(site, site.launch, topologies.read_topology(job)):
                changes.report(finding)
        else:
            for finding in unenforced(site, topologies.read_topology(job), self.framework):
                changes.report(finding)

    def _written(self, job: Job) -> Iterator[Finding]:
        """Refuse now what would be refused of the launch that Muster writes, with items of the runtime."""
        planned = Changes(job.document)
        later = replace(job, changes=planned, memory={})
        TorchTuneStrategy.enforce_command(self, later, planned)
        own = list(job.trainer.args or ())
        for finding in tune_launches.check(later, recipes.IMMUTABLE):
            if finding.severity is Severity.ERROR:
                mine = finding.value in own
                field = f"spec.trainer.args[{own.index(finding.value)}]" if mine else "spec.runtimeRef.name"
                yield dataclasses.replace(finding, field=field)

    def validate(self, job: Job) -> Iterable[Finding]:
        """Refuse what Trainer refuses for `tune run`, in every job whose launch Muster completes."""
        yield from super().validate(job)
        completed = _is_completed(job)
        if _is_bare(job):
            said = list(tune_launches.check_arguments(job.trainer.args or ()))
            yield from said or self._written(job)
        else:
            yield from tune_launches.check(job, recipes.IMMUTABLE if completed else frozenset(), rewrites.own(job))
        own = _recipe(job).config if completed else ""  # of it `_model_findings` speaks
        yield from (each for each in tune_launches.check_names(job) if not own or each.value != own)
        if _is_bare(job) or completed:
            yield from _model_findings(job)
            yield from _immutable_findings(job)


def _complete(job: Job, changes: Changes, site: sites.Site) -> None:
    recipe = _recipe(job)
    written, inherited, args = job.trainer.command, rewrites.runtime_command(job), job.trainer.args or ()
    head = launches.parse(written or inherited or ("tune", "run")).head
    own = rewrites.config_of(args)
    if own:
        recipe = recipes.Recipe(recipes.fitting(own) or recipe.name, own)
    # Trainer adds the endpoint for two processes on one GPU too, and tune run refuses it for a recipe for one device.
    # Every other recipe needs it, also where no number of processes can be right (none, or fewer).
    endpoint = [] if recipe.single_device else [f"{rewrites.ENDPOINT}={rewrites.rendezvous(job)}"]
    kept = rewrites.kept(inherited, args, everything=not written)
    command = [*head, *endpoint, recipe.name, *(() if own else ("--config", recipe.config)), *kept]
    size, model = topologies.read_topology(job).size, recipes.model_of(_runtime_name(job))
    reason = f"recipe {recipe.name} trains {model} on {size}; paths and dataset come from the runtime"
    site.write(changes, command, site.args, rule="torchtune/recipe", reason=reason)


def _is_bare(job: Job) -> bool:
    """Whether a TrainJob leaves recipe and config open: `tune run`, or no command and a runtime such as Trainer's.

    The command of a platform's own runtime, with another model, recipe or config, is used as written.
    """
    if job.kind != "TrainJob":
        return False
    command = job.trainer.command
    if rewrites.own(job) is not None:
        return False
    if command:
        launch = launches.parse(command)
        return tune_launches.is_run(launch) and not launch.options and not launch.target
    launch, model = launches.parse(rewrites.runtime_command(job)), recipes.model_of(_runtime_name(job))
    full = (
        tune_launches.is_run(launch) and launch.target.startswith("full_finetune_") and f"{model}_full" in launch.rest
    )
    return model in recipes.MODELS and (full or launch.launcher is Launcher.NONE)


def _is_completed(job: Job) -> bool:
    return job.kind == "TrainJob" and _recipe(job).config in (job.trainer.command or ())


def _recipe(job: Job) -> recipes.Recipe:
    """Return the recipe, counting as Trainer will after `pin_processes`."""
    topology = topologies.read_topology(job)
    counted = topologies.trainer_processes(job)
    asked = _processes(job)
    gpus = topologies.trainer_gpus(job) if counted == resources.AUTO or asked else 0
    if asked is None and isinstance(counted, int):
        asked = counted if topology.processes is None else topology.processes
    model, args = recipes.model_of(_runtime_name(job)), job.trainer.args or ()
    return recipes.choose(model, topology.nodes, asked, gpus, args, _tunes(job))


def _processes(job: Job) -> int | None:
    asked = job.trainer.num_proc_per_node
    return asked if isinstance(asked, int) else None


def _tunes(job: Job) -> recipes.Tunes:
    return job.runtime.version.tunes if job.runtime else "values"


def _runtime_name(job: Job) -> str:
    return job.runtime.name if job.runtime else ""


def _model_findings(job: Job) -> Iterator[Finding]:
    name, args, topology = _runtime_name(job), job.trainer.args or (), topologies.read_topology(job)
    model, rule = recipes.model_of(name), "torchtune/model"
    if model not in recipes.MODELS:
        message = f"torchtune has no recipe for model {model!r}; the runtime's name must end in one of {_known_names()}"
        yield error("spec.runtimeRef.name", name, message, rule=rule)
    if topology.nodes > 1 and model != recipes.LLAMA3_3_70B:
        message = f"must be 1: torchtune trains {model} on one node only"
        yield error("spec.trainer.numNodes", topology.nodes, message, rule=rule)
    elif topology.nodes > 1 and (recipes.uses_lora(args) or recipes.uses_qlora(args)):
        message = "must be 1: torchtune has no LoRA recipe for several nodes and would train the full model instead"
        yield error("spec.trainer.numNodes", topology.nodes, message, rule=rule)
    recipe = _recipe(job)
    if model == recipes.LLAMA3_3_70B and recipe.single_device:
        message = f"torchtune has no config {recipe.config}, so the job would fail at its start; ask for several GPUs"
        yield warning("spec.trainer.resourcesPerNode", _written_resources(job), message, rule=rule)
    yield from _qlora_findings(job, model)


def _written_resources(job: Job) -> object:
    return job.raw_trainer.get("resourcesPerNode")


def _qlora_findings(job: Job, model: str) -> Iterator[Finding]:
    """Judge as Trainer's webhook does: by the number in the job and by GPUs, never by CPUs."""
    rule, count, args = "torchtune/qlora", _processes(job), job.trainer.args or ()
    nodes, gpus = topologies.read_topology(job).nodes, topologies.trainer_gpus(job)
    recipe = recipes.choose(model, nodes, count, gpus, args, _tunes(job))
    if not recipe.config.endswith(("_qlora", "_qlora_single_device")):
        return
    if model == recipes.QWEN2_5_1_5B:
        message = f"torchtune has no QLoRA config for {model}; use LoRA or another model"
        yield error("spec.runtimeRef.name", _runtime_name(job), message, rule=rule)
    elif not recipe.single_device and model in recipes.MODELS - {recipes.LLAMA3_3_70B}:
        message = f"must be 1: torchtune has no distributed QLoRA config for {model}"
        yield error("spec.trainer.numProcPerNode", count, message, rule=rule)
        message = f"must ask for one GPU: torchtune has no distributed QLoRA config for {model}"
        yield error("spec.trainer.resourcesPerNode", _written_resources(job), message, rule=rule)


def _immutable_findings(job: Job) -> Iterator[Finding]:
    for index, arg in enumerate(job.trainer.args or ()):
        key = arg.partition("=")[0]
        if key in recipes.IMMUTABLE:
            message = f"the runtime sets {key}, so it must not be set here; remove it"
            yield error(f"spec.trainer.args[{index}]", arg, message, rule="torchtune/immutable")


def _known_names() -> str:
    return ", ".join(sorted(f"-{model.replace('_', '.').replace('/', '-').lower()}" for model in recipes.MODELS))
