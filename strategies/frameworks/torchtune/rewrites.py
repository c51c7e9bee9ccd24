"""Rewrites: the command line of a `tune run` that the job wrote, with what torchrun needs and without a second recipe.

What the job writes wins over what the runtime writes, whichever of the two stands last.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import names
from muster.strategies.frameworks.torch import tune_launches
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import coordinators, launches, sites, topologies
from muster.strategies.launches.launches import Launch
from muster.strategies.trainer import recipes

__all__ = ["ENDPOINT", "add_endpoint", "config_of", "kept", "own", "prefer_own", "rendezvous", "runtime_command"]

ENDPOINT = "--rdzv_endpoint"


def config_of(words: Sequence[str]) -> str:
    """Return the last config that the words name, "" for none."""
    return next((after for word, after in reversed([*itertools.pairwise(words)]) if word == "--config"), "")


def kept(inherited: Sequence[str], args: Sequence[str], *, everything: bool) -> list[str]:
    """Return the `key=value` items of the runtime's command that Muster writes behind the config.

    Trainer keeps the paths and drops the dataset, so the recipe trains on the default dataset of its config, which no
    initializer has fetched. Here the dataset is kept, unless the job sets a dataset, or the same item, itself.

    Args:
        inherited: command of the runtime.
        args: arguments of the TrainJob.
        everything: whether all other items are kept as well, since the job has no command of its own.
    """
    dataset = _dataset_items(inherited, args)
    if everything:
        items = [word for word in inherited if "=" in word and not word.startswith("-")]
        found = [word for word in items if not _is_other(args, word)]
        return [word for word in found if not _is_dataset(word) or word in dataset]
    return dataset + [word for word in inherited if word.partition("=")[0] in recipes.IMMUTABLE]


def _dataset_items(inherited: Sequence[str], args: Sequence[str]) -> list[str]:
    written = {key for key, _ in recipes.items(args)}
    if "dataset" in written:
        return []
    return [word for word in inherited if _is_dataset(word) and word.partition("=")[0] not in written]


def _is_dataset(word: str) -> bool:
    key, equals, _ = word.partition("=")
    return bool(equals) and (key == "dataset" or key.startswith("dataset."))


def own(job: Job) -> Launch | None:
    """Return the launch whose recipe the TrainJob names in its args, behind `tune run` or behind no command at all."""
    command, args = job.trainer.command, job.trainer.args or ()
    inherited = launches.parse(runtime_command(job))
    if (
        job.kind != "TrainJob"
        or job.runtime is None
        or not (tune_launches.is_run(inherited) or not inherited.head or command)
    ):
        return None
    written = launches.parse(command or ("tune", "run"))
    if not tune_launches.is_run(written) or written.target or written.options:
        return None
    launch = launches.parse((*written.head, *args))
    mine = launch.target and "=" not in launch.target and "--config" in launch.rest
    return launch if launch.target in recipes.RECIPES or mine else None


def prefer_own(job: Job, changes: Changes, site: sites.Site) -> None:
    """Write one launch where Trainer would make two: the recipe, config and items of the job win over the runtime's.

    Trainer completes exactly `tune run` with a recipe and config, and puts the runtime's args behind the command of a
    job without args.
    """
    written, trainer = own(job), job.trainer
    if written is not None:
        inherited = kept(runtime_command(job), written.rest, everything=False)
        items = [word for word in inherited if not _has(written.rest, word)]
        reason = f"the job names the recipe {written.target} itself; paths and dataset come from the runtime"
        command = (*written.head, *written.options, *(("-m",) if written.module else ()), written.target)
        site.write(changes, command, (*written.rest, *items), rule="torchtune/own-recipe", reason=reason)
        return
    if job.kind == "TrainJob" and trainer.command and trainer.args is None:
        _drop_runtimes_args(changes, site)
    elif job.kind == "TrainJob" and not trainer.command and config_of(trainer.args or ()):
        _drop_runtimes_config(changes, site)


def _drop_runtimes_args(changes: Changes, site: sites.Site) -> None:
    """Take what the job's command says itself out of the runtime's args, which stand behind it."""
    launch = launches.parse(site.command)
    left = [word for word in site.args if "=" in word and not word.startswith("-") and not _is_other(launch.rest, word)]
    if launch.target and tuple(left) != site.args:
        reason = "the arguments of the runtime stand behind the job's command and would win over it"
        command = site.command[: len(site.command) - len(launch.rest)]
        site.write(changes, command, [*launch.rest, *left], rule="torchtune/own-recipe", reason=reason)


def _drop_runtimes_config(changes: Changes, site: sites.Site) -> None:
    """Take the config out of the runtime's command where the job's args name one: tune looks up only the first."""
    index = site.command.index("--config") if "--config" in site.command else None
    if index is not None:
        command = [*site.command[:index], *site.command[index + 2 :]]
        reason = "the job names a config itself, and tune run looks up only the first of two"
        site.write(changes, command, site.args, rule="torchtune/own-recipe", reason=reason)


def _has(words: Sequence[str], item: str) -> bool:
    return any(key == item.partition("=")[0] for key, _ in recipes.items(words))


def _is_other(words: Sequence[str], item: str) -> bool:
    """Whether the words give the key of an item another value."""
    return _has(words, item) and item not in words


def add_endpoint(job: Job, changes: Changes, site: sites.Site) -> None:
    """Add the endpoint to a `tune run` that needs torchrun, because without its options one process starts."""
    launch, topology = site.launch, topologies.read_topology(job)
    if not tune_launches.is_run(launch) or not _wants_torchrun(launch, topology) or "standalone" in launch.values:
        return
    written, several = launch.values.get("rdzv_endpoint"), topology.nodes > 1
    local = written is not None and written.startswith(("localhost", "127.0.0.1")) and not site.own_command
    if (launch.options and not several) or (written is not None and not (local and several)):
        return
    words = [*launch.head, f"{ENDPOINT}={rendezvous(job)}", *_without_endpoint(launch), launch.target, *launch.rest]
    args = len(site.args) if tuple(words[len(words) - len(site.args) :]) == site.args else len(words) - len(launch.head)
    command = len(words) - args
    reason = "without the coordinator's endpoint, tune run trains on each node alone"
    if not several:
        reason = "without an option of torchrun, tune run starts one process"
    if not topology.is_distributed:
        reason = "without an option of torchrun, tune run starts no process group, and this recipe ends with an error"
    site.write(changes, words[:command], words[command:], rule="torchtune/rendezvous", reason=reason)


def _wants_torchrun(launch: Launch, topology: topologies.Topology) -> bool:
    """Whether torchrun has to start the recipe; one of the user's own says nothing, and the job's numbers decide."""
    if not launch.target or "=" in launch.target:
        return False
    takes = tune_launches.takes_torchrun(launch.target)
    if takes is not None:
        return takes
    counted = topology.on_cpu and not topology.explicit  # Trainer counts CPUs; the job asked for no number
    return topology.nodes > 1 or (topology.is_distributed and not counted)


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


def rendezvous(job: Job) -> str:
    """Return the coordinator's endpoint, by env where the job has no name yet."""
    coordinator = coordinators.find_coordinator(job)
    if coordinator is None:
        return f"$({names.MASTER_ADDR}):$({names.MASTER_PORT})"
    return coordinator.endpoint


def runtime_command(job: Job) -> Sequence[str]:
    """Return the command of the runtime's training container, () for none."""
    place = job.runtime.trainer if job.runtime else None
    return (place.container.command or ()) if place else ()
