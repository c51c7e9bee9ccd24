"""Programs: which of those that a shell runs prepare a training, and which launch it."""

from __future__ import annotations

from collections.abc import Sequence

from muster.strategies.launches.launches import Launch, Launcher, program
from muster.strategies.shell import PROGRAMS

__all__ = ["is_preparation", "is_training", "runs_nothing"]


_SAYING = frozenset({"-V", "-VV", "--version", "-h", "--help"})
_SERVERS = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"})


def is_preparation(words: Sequence[str]) -> bool:
    """Tell whether a program neither trains nor starts another that does."""
    name = program(words[0])
    return name in PROGRAMS["preparing"] and not (name == "find" and any(word.startswith("-exec") for word in words))


def runs_nothing(launch: Launch) -> bool:
    """Tell whether a launcher or Python is called only to install, to configure or to say something."""
    asked = {"help", "version"} & set(launch.values)
    if launch.launcher is Launcher.PYTHON:
        if launch.module:
            return launch.target in PROGRAMS["preparing_modules"]
        return not launch.target and bool(_SAYING & set(launch.head[1:]))
    if launch.launcher in (Launcher.ACCELERATE, Launcher.TUNE, Launcher.FABRIC):
        return not is_training(launch)
    if launch.launcher in (Launcher.TRL, Launcher.VLLM):
        return launch.target in ("", "env", "collect-env")
    return bool(asked) and not launch.target


def is_training(launch: Launch) -> bool:
    """Tell whether a launch is made by a launcher, rather than a program that somebody may run by the way."""
    head = launch.head
    trains = {
        Launcher.PYTHON: launch.module and launch.target in _SERVERS,
        Launcher.TUNE: "run" in head,
        Launcher.FABRIC: "run" in head,
        Launcher.ACCELERATE: head[-1].endswith("launch") and launch.target != "launch",
        Launcher.VLLM: launch.target == "serve",
        Launcher.RAY: "submit" in head,
    }
    return trains.get(launch.launcher, True)
