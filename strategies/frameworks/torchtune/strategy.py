"""The torchtune strategy does for every job of a torchtune runtime what Trainer does for `tune run`.

Trainer v2.3.0 recognises torchtune only by the exact command `tune run` of a TrainJob. Here the runtime's label
decides, so a job without a command gets the same launch, and the dataset that the runtime names is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from strategies.changes.changes import Changes
from strategies.documents import names
from strategies.documents.findings import Finding, error, warning
from strategies.frameworks.torch.strategy import TorchFamily, unenforced
from strategies.jobs.jobs import Job
from strategies.launches import coordinators, launches, sites, topologies
from strategies.launches.launches import Launch, Launcher
from strategies.plugins import registry
from strategies.trainer import recipes, resources

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
        site = sites.find_site(job)
        if site is None or job.owner is not None:
            return
        if _is_bare(job):
            _complete(job, changes, site)
        elif _is_run(site.launch):
            _add_endpoint(job, changes, site)
            _report_single(job, changes, site)
        else:
            for finding in unenforced(site, topologies.read_topology(job), self.framework):
                changes.report(finding)

    def validate(self, job: Job) -> Iterable[Finding]:
        """Refuse what Trainer refuses for `tune run`, in every job whose launch Muster completes."""
        yield from super().validate(job)
        if _is_bare(job) or _is_completed(job):
            yield from _model_findings(job)
            yield from _immutable_findings(job)


def _complete(job: Job, changes: Changes, site: sites.Site) -> None:
    recipe, distributed = _recipe(job)
    written, inherited = job.trainer.get("command"), _runtime_command(job)
    head = launches.parse(written or inherited or ("tune", "run")).head
    endpoint = [f"{_ENDPOINT}={_rendezvous(job)}"] if distributed else []
    kept = _kept(inherited, job.trainer.get("args") or (), everything=not written)
    command = [*head, *endpoint, recipe.name, "--config", recipe.config, *kept]
    size, model = topologies.read_topology(job).size, recipes.model_of(_runtime_name(job))
    reason = f"recipe {recipe.name} trains {model} on {size}; paths and dataset come from the runtime"
    site.write(changes, command, site.args, rule="torchtune/recipe", reason=reason)


def _kept(runtime_command: Sequence[str], args: Sequence[str], *, everything: bool) -> list[str]:
    """Return the `key=value` items of the runtime's command that Muster writes behind the config.

    Trainer keeps the paths and drops the dataset, so the recipe trains on the default dataset of its config, which no
    initializer has fetched. Here the dataset is kept, unless the job sets a dataset, or the same item, itself.

    Args:
        runtime_command: command of the runtime.
        args: arguments of the TrainJob.
        everything: whether all other items are kept as well, since the job has no command of its own.
    """
    dataset = _dataset_items(runtime_command, args)
    if everything:
        found = [word for word in runtime_command if "=" in word and not word.startswith("-")]
        return [word for word in found if not _is_dataset(word) or word in dataset]
    return dataset + [word for word in runtime_command if word.partition("=")[0] in recipes.IMMUTABLE]


def _dataset_items(runtime_command: Sequence[str], args: Sequence[str]) -> list[str]:
    written = {key for key, _ in recipes.items(args)}
    if "dataset" in written:
        return []
    return [word for word in runtime_command if _is_dataset(word) and word.partition("=")[0] not in written]


def _is_dataset(word: str) -> bool:
    key, equals, _ = word.partition("=")
    return bool(equals) and (key == "dataset" or key.startswith("dataset."))


def _add_endpoint(job: Job, changes: Changes, site: sites.Site) -> None:
    """Add the endpoint to a `tune run` of a distributed recipe, which without torchrun options starts one process."""
    launch, topology = site.launch, topologies.read_topology(job)
    if not topology.is_distributed or "_distributed" not in launch.target or "standalone" in launch.values:
        return
    written, several = launch.values.get("rdzv_endpoint"), topology.nodes > 1
    local = written is not None and written.startswith(("localhost", "127.0.0.1")) and not site.own_command
    if (launch.options and not several) or (written is not None and not (local and several)):
        return
    words = [*launch.head, f"{_ENDPOINT}={_rendezvous(job)}", *_without_endpoint(launch), launch.target, *launch.rest]
    args = len(site.args) if tuple(words[len(words) - len(site.args) :]) == site.args else len(words) - len(launch.head)
    command = len(words) - args
    reason = "without the coordinator's endpoint, tune run trains on each node alone"
    site.write(changes, words[:command], words[command:], rule="torchtune/rendezvous", reason=reason)


def _report_single(job: Job, changes: Changes, site: sites.Site) -> None:
    recipe, topology = site.launch.target, topologies.read_topology(job)
    if topology.is_distributed and recipe.endswith("_single_device"):
        message = f"this recipe trains in one process on each node, and the job asks for {topology.size}"
        place = site.locate(site.argv.index(recipe))
        changes.report(warning(place, recipe, message, rule="torchtune/not-enforced"))


def _without_endpoint(launch: Launch) -> list[str]:
    kept: list[str] = []
    skip = False
    for option in launch.options:
        name, equals, _ = option.lstrip("-").replace("-", "_").partition("=")
        if not skip and name == "rdzv_endpoint":
            skip = not equals
        elif skip:
            skip = False
        else:
            kept.append(option)
    return kept


def _is_run(launch: Launch) -> bool:
    return launch.launcher is Launcher.TUNE and launch.head[-1] == "run"


def _is_bare(job: Job) -> bool:
    """Whether a TrainJob leaves recipe and config open: `tune run`, or no command and a runtime such as Trainer's.

    The command of a platform's own runtime, with another model, recipe or config, is used as written.
    """
    if job.kind != "TrainJob" or job.runtime is None:
        return False
    command = job.trainer.get("command")
    if command:
        launch = launches.parse(command)
        return _is_run(launch) and not launch.options and not launch.target
    launch, model = launches.parse(_runtime_command(job)), recipes.model_of(_runtime_name(job))
    full = _is_run(launch) and launch.target.startswith("full_finetune_") and f"{model}_full" in launch.rest
    return model in recipes.MODELS and (full or launch.launcher is Launcher.NONE)


def _is_completed(job: Job) -> bool:
    return job.kind == "TrainJob" and _recipe(job)[0].config in (job.trainer.get("command") or ())


def _recipe(job: Job) -> tuple[recipes.Recipe, bool]:
    """Return the recipe and whether processes have to meet, counting as Trainer will after `pin_processes`."""
    topology = topologies.read_topology(job)
    counted = topologies.trainer_processes(job)
    explicit = job.trainer.get("numProcPerNode")
    if explicit is None and isinstance(counted, int):
        explicit = counted if topology.processes is None else topology.processes
    gpus = topologies.trainer_gpus(job) if counted == resources.AUTO or job.trainer.get("numProcPerNode") else 0
    recipe = recipes.choose(
        recipes.model_of(_runtime_name(job)), topology.nodes, explicit, gpus, job.trainer.get("args") or ()
    )
    distributed = topology.nodes > 1 or (gpus > 1 if explicit is None else explicit > 1)
    return recipe, distributed


def _rendezvous(job: Job) -> str:
    coordinator = coordinators.find_coordinator(job)
    if coordinator is None:
        return f"$({names.MASTER_ADDR}):$({names.MASTER_PORT})"
    return coordinator.endpoint


def _runtime_name(job: Job) -> str:
    return job.runtime.name if job.runtime else ""


def _runtime_command(job: Job) -> list[str]:
    place = job.runtime.trainer if job.runtime else None
    return list(place.container.get("command") or ()) if place else []


def _model_findings(job: Job) -> Iterator[Finding]:
    name, args, topology = _runtime_name(job), job.trainer.get("args") or (), topologies.read_topology(job)
    model, rule = recipes.model_of(name), "torchtune/model"
    if model not in recipes.MODELS:
        message = f"torchtune has no recipe for model {model!r}; the runtime's name must end in one of {_known_names()}"
        yield error("spec.runtimeRef.name", name, message, rule=rule)
    if topology.nodes > 1 and model != recipes.LLAMA3_3_70B:
        message = f"must be 1: torchtune trains {model} on one node only"
        yield error("spec.trainer.numNodes", topology.nodes, message, rule=rule)
    if topology.nodes > 1 and (recipes.uses_lora(args) or recipes.uses_qlora(args)):
        message = "must be 1: torchtune has no LoRA recipe for several nodes and would train the full model instead"
        yield error("spec.trainer.numNodes", topology.nodes, message, rule=rule)
    recipe, _ = _recipe(job)
    if model == recipes.LLAMA3_3_70B and recipe.single_device:
        message = f"torchtune has no config {recipe.config}, so the job would fail at its start; ask for several GPUs"
        yield warning("spec.trainer.resourcesPerNode", job.trainer.get("resourcesPerNode"), message, rule=rule)
    yield from _qlora_findings(job, model)


def _qlora_findings(job: Job, model: str) -> Iterator[Finding]:
    """Judge as Trainer's webhook does: by the number in the job and by GPUs, never by CPUs."""
    trainer, rule = job.trainer, "torchtune/qlora"
    count, args = trainer.get("numProcPerNode"), trainer.get("args") or ()
    recipe = recipes.choose(model, topologies.read_topology(job).nodes, count, topologies.trainer_gpus(job), args)
    if not recipe.config.endswith(("_qlora", "_qlora_single_device")):
        return
    if model == recipes.QWEN2_5_1_5B:
        message = f"torchtune has no QLoRA config for {model}; use LoRA or another model"
        yield error("spec.runtimeRef.name", _runtime_name(job), message, rule=rule)
    elif not recipe.single_device and model in recipes.MODELS - {recipes.LLAMA3_3_70B}:
        message = f"must be 1: torchtune has no distributed QLoRA config for {model}"
        yield error("spec.trainer.numProcPerNode", count, message, rule=rule)
        message = f"must ask for one GPU: torchtune has no distributed QLoRA config for {model}"
        yield error("spec.trainer.resourcesPerNode", trainer.get("resourcesPerNode"), message, rule=rule)


def _immutable_findings(job: Job) -> Iterator[Finding]:
    for index, arg in enumerate(job.trainer.get("args") or ()):
        key = arg.partition("=")[0]
        if key in recipes.IMMUTABLE:
            message = f"the runtime sets {key}, so it must not be set here; remove it"
            yield error(f"spec.trainer.args[{index}]", arg, message, rule="torchtune/immutable")


def _known_names() -> str:
    return ", ".join(sorted(f"-{model.replace('_', '.').replace('/', '-').lower()}" for model in recipes.MODELS))
