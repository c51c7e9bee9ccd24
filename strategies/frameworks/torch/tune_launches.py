"""Launches of `tune run`: what it refuses, or does alone on each node, under any label of the torch family.

Source: torchtune `torchtune/_cli/run.py` (the recipe, `--config` as a word of its own, torchrun's options before
the recipe) and `torchtune/config/_parse.py`, `_utils.py` (what may stand behind it: `key=value` and `~key`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from muster.strategies.documents.findings import Finding, beginning, error, warning
from muster.strategies.frameworks.torch import tune_settings
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import sites, topologies
from muster.strategies.launches.guesses import Guesses
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.topologies import Topology
from muster.strategies.trainer import recipes

__all__ = ["alone", "check", "check_arguments", "check_names", "is_run", "takes_torchrun", "trains_alone"]

_SINGLE = "_single_device"
_TRAINS = ("finetune", "dpo", "qat", "distillation")
_CONFIG = "--config"
_NO_CONFIG, _CONFIG_RULE = "torchtune/no-config", "torchtune/config"
_TWICE = "torchtune/twice"
_Fault = tuple[str, Any, str, str]
"""A word of the launch, the value to show, what is wrong, and the rule."""


def check(job: Job, reported: Collection[str], written: Launch | None = None) -> Iterator[Finding]:
    """Check the launches of `tune run`: those that fail at their start, and those that train alone on several nodes.

    Args:
        job: the job as it will be stored.
        reported: config items about which something else is said.
        written: the launch that Muster writes where the command line is none of `tune run` yet.
    """
    site = sites.find_site(job)
    if site is None or job.owner is not None:
        return
    topology = topologies.read_topology(job)
    found = site.reading.launches if written is None or is_run(site.launch) else (written,)
    for launch in found:
        if is_run(launch) and launch.certain:
            for word, value, message, rule in _faults(launch, _own_words(job, site, launch), topology):
                if rule != _TWICE or word.partition("=")[0] not in reported:
                    yield error(_place(site, launch, word), value, message, rule=rule)
            yield from _on_cpu(site, launch, topology)


def _on_cpu(site: sites.Site, launch: Launch, topology: Topology) -> Iterator[Finding]:
    """Warn about a recipe that is told to leave the GPUs of its pod alone."""
    if topology.devices.count and "device=cpu" in launch.rest:
        message = f"the recipe trains on the CPU, and {topology.devices.count} GPUs are idle; remove it"
        yield warning(_place(site, launch, "device=cpu"), "device=cpu", message, rule="torchtune/not-enforced")


def check_arguments(args: Sequence[str]) -> Iterator[Finding]:
    """Judge the args of a TrainJob whose recipe Muster chooses, as they will stand behind it."""
    others = [] if any("$" in word for word in args) else _split(args)[1]
    odd = next((word for word in others if _is_odd(word) and word not in recipes.RECIPES), None)
    if odd is not None:
        index = len(args) - 1 - list(reversed(args)).index(odd)
        yield error(f"spec.trainer.args[{index}]", odd, _ODD, rule="torchtune/argument")


def check_names(job: Job) -> Iterator[Finding]:
    """Warn about recipes whose names are nearly those of torchtune, and about configs and models that it lacks."""
    site = sites.find_site(job)
    if site is None or job.owner is not None:
        return
    for launch in site.reading.launches:
        name = launch.target
        if is_run(launch) and not any("$" in word for word in launch.rest):
            configs, others = _split(launch.rest)
            for word, message in tune_settings.unknown(configs[0] if configs else "", others):
                yield warning(_place(site, launch, word), word, message, rule=_CONFIG_RULE)
            for word, message in tune_settings.unread(name, configs[0] if configs else "", others):
                yield warning(_place(site, launch, word), word, message, rule="torchtune/override")
        if not is_run(launch) or not re.fullmatch(_MODULE, name) or len(name) > _LONGEST or name in recipes.RECIPES:
            continue
        meant = _NAMES.closest(name)
        if meant is not None:
            message = f"is not a recipe of torchtune, which would start a module of this name; did you mean {meant}?"
            yield warning(_place(site, launch, name), name, message, rule="torchtune/recipe-path")


_MODULE = r"[a-z0-9_]+"
_LONGEST = 60
_NAMES = Guesses(recipes.RECIPES, 0.8)


def _faults(launch: Launch, own: Sequence[str], topology: Topology) -> Iterator[_Fault]:
    yield from _recipe(launch)
    yield from _arguments(launch, own)
    yield from _overrides(launch, topology)
    yield from _nodes(launch, topology)


def _own_words(job: Job, site: sites.Site, launch: Launch) -> Sequence[str]:
    """Return the words behind the recipe that the job itself wrote; they win over those of the runtime's command."""
    inherited = job.kind == "TrainJob" and not site.own_command and not launch.through
    return launch.rest[max(0, len(launch.rest) - len(site.args)) :] if inherited else launch.rest


def is_run(launch: Launch) -> bool:
    """Whether it is `tune run`, and not another command of tune's."""
    return launch.launcher is Launcher.TUNE and launch.head[-1:] == ("run",)


def takes_torchrun(recipe: str) -> bool | None:
    """Whether a recipe needs torchrun (True) or cannot take it (False); None for a recipe of the user's own."""
    if recipe in recipes.RECIPES:
        return recipes.RECIPES[recipe]
    if _stem(recipe).endswith(_SINGLE):
        return False
    return True if _stem(recipe).endswith("_distributed") else None


def trains_alone(recipe: str, topology: Topology) -> bool:
    """Whether several nodes would each train the whole job with a recipe for one device."""
    is_training = any(word in recipe for word in _TRAINS)
    return topology.nodes > 1 and is_training and takes_torchrun(recipe) is False


def alone(site: sites.Site, launch: Launch, topology: Topology) -> Iterator[Finding]:
    """Warn about devices or processes that a recipe for one device leaves idle."""
    recipe = launch.target
    if takes_torchrun(recipe) is not False or not topology.is_distributed or trains_alone(recipe, topology):
        return
    devices = topology.devices.count or 0
    idle = f"{devices - 1} of {devices} GPUs idle on each node; " if devices > 1 else ""
    message = f"this recipe runs in one process on each node, and the job asks for {topology.size}: {idle}"
    hint = "use a recipe for several devices, or ask for one"
    text = f"{message.removesuffix(' ')} {hint}" if idle else f"{message.removesuffix(': ')}; {hint}"
    yield warning(_place(site, launch, recipe), recipe, text, rule="torchtune/not-enforced")


def _recipe(launch: Launch) -> Iterator[_Fault]:
    recipe = launch.target
    if not recipe or "=" in recipe:
        message = "tune run needs a recipe before its arguments; name one of tune ls"
        yield recipe, recipe or None, message, "torchtune/no-recipe"
    elif recipe not in recipes.RECIPES and recipe.startswith(("/", ".")):
        message = (
            "tune run makes a module's name of this path and finds none; write it as the working directory sees it, "
            f"such as {beginning(recipe.lstrip('./'), 60)}"
        )
        yield recipe, recipe, message, "torchtune/recipe-path"
    elif recipes.RECIPES.get(recipe) is False and launch.options:
        message = f"tune run refuses options of torchrun for the recipe {recipe}, which has one process; remove them"
        yield launch.options[0], launch.options[0], message, "torchtune/single-device"


def _arguments(launch: Launch, own: Sequence[str]) -> Iterator[_Fault]:
    """Read what stands behind the recipe; words that Kubernetes or a shell expands may be anything."""
    if not launch.target or "=" in launch.target or any("$" in word for word in launch.rest):
        return
    configs, others = _split(launch.rest)
    yield from _configs(launch, configs)
    yield from _twice(_split(own)[1])
    second = next((word for word in others if word in recipes.RECIPES), None)
    odd = next((word for word in others if launch.target in recipes.RECIPES and _is_odd(word)), None)
    if second is not None:
        message = f"the launch has the recipe {launch.target} already, and tune run takes one; remove one of them"
        yield second, second, message, "torchtune/two-recipes"
    elif odd is not None:
        yield odd, odd, _ODD, "torchtune/argument"


def _overrides(launch: Launch, topology: Topology) -> Iterator[_Fault]:
    """Judge the items behind the config, which are all known."""
    if launch.target not in recipes.RECIPES or any("$" in word for word in launch.rest):
        return
    configs, others = _split(launch.rest)
    launched = topologies.launched(topology, launch)
    ranks = launched.world_size if recipes.RECIPES[launch.target] else 1
    for word, message, rule in tune_settings.faults(launch.target, configs[0] if configs else "", others, ranks):
        yield word, word, message, rule


_ODD = "a recipe takes only key=value behind its config, with one =, and ends with an error; correct it"


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the configs and all other words."""
    configs, others, rest = [], [], iter(words)
    for word in rest:
        if word == _CONFIG:
            configs.append(next(rest, ""))
        else:
            others.append(word)
    return configs, others


def _is_odd(word: str) -> bool:
    """Whether the config parser of torchtune ends with an error at this word."""
    if word.startswith(("~", f"{_CONFIG}=")):
        return False
    return word.startswith("--") or word.count("=") != 1


def _twice(words: Sequence[str]) -> Iterator[_Fault]:
    seen = dict[str, str]()
    for key, value in recipes.items([word for word in words if not word.startswith(("-", "~"))]):
        if seen.setdefault(key, value) != value:
            cure = f"only one of them can be meant; write {beginning(key, 60)} once"
            message = f"has the value {beginning(seen[key], 40)!r} before, and {cure}"
            yield f"{key}={value}", f"{key}={value}", message, _TWICE


def _configs(launch: Launch, configs: list[str]) -> Iterator[_Fault]:
    attached = next((word for word in launch.rest if word.startswith(f"{_CONFIG}=")), None)
    if not configs:
        hint = f"write {_CONFIG} and the config as two words" if attached else f"add {_CONFIG} and a config of tune ls"
        yield attached or launch.target, attached, f"tune run ends with an error without {_CONFIG}; {hint}", _NO_CONFIG
    elif any(config != configs[0] for config in configs):
        message = (
            f"tune run looks up the first config, {beginning(configs[0], 60)}, and the recipe takes the last; write one"
        )
        yield configs[-1], f"{_CONFIG} {configs[-1]}", message, "torchtune/two-configs"


def _nodes(launch: Launch, topology: Topology) -> Iterator[_Fault]:
    if trains_alone(launch.target, topology) and not launch.options:
        message = (
            f"this recipe runs in one process, so each of the {topology.nodes} nodes would train the whole model; "
            "ask for one node, or use a recipe for several devices"
        )
        yield launch.target, launch.target, message, "torchtune/single-device"


def _place(site: sites.Site, launch: Launch, word: str) -> str:
    """Return the field path of a word of the command line, or of the command around it."""
    if not launch.through and word and word in site.argv:
        return site.locate(len(site.argv) - 1 - site.argv[::-1].index(word))
    return f"{site.place}.command" if site.command else f"{site.place}.args"


def _stem(recipe: str) -> str:
    return recipe.removesuffix(".py")
