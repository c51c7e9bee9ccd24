"""Launches: what a container's command line starts, read without running it.

A strategy never chooses itself by a command, but it may only rewrite a command that it understands. `parse` names the
launcher, its own options and the program behind it; whatever it does not know is the user's own and stays `OTHER`.
torchrun's options are those of torch 2.13 `torch/distributed/run.py`; every one may be spelt with - or _.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Launch", "Launcher", "is_true", "parse"]


class Launcher(Enum):
    """Who starts the processes. `PYTHON` is a plain program, `NONE` leaves the image's own entrypoint."""

    NONE = "none"
    TORCHRUN = "torchrun"
    TRL = "trl"
    ACCELERATE = "accelerate"
    TUNE = "tune"
    VLLM = "vllm"
    PYTHON = "python"
    SHELL = "shell"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Launch:
    """A parsed command line.

    Attributes:
        launcher: who starts the processes.
        head: the launcher's own words, without its options: `("torchrun",)` or `("python", "-m", "trl")`.
        options: the launcher's own options as they were written.
        values: the same by name, dashes as underscores and no leading ones: `{"nproc_per_node": "4"}`.
        module: whether `target` is a Python module (`-m`).
        target: program, module or subcommand that is started; "" when there is none.
        rest: its arguments.
    """

    launcher: Launcher
    head: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    module: bool = False
    target: str = ""
    rest: tuple[str, ...] = ()


_TORCHRUN_FLAGS = frozenset({"standalone", "m", "module", "no_python", "run_path", "virtual_local_rank", "h", "help"})
_PYTHON_FLAGS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_TORCHRUN_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_PYTHON_MODULES = {"trl": Launcher.TRL, "trl.cli": Launcher.TRL}
_ACCELERATE_MODULES = frozenset({"accelerate.commands.launch", "accelerate.commands.accelerate_cli"})
_PROGRAMS = {"trl": Launcher.TRL, "tune": Launcher.TUNE, "vllm": Launcher.VLLM}


def parse(argv: Sequence[str]) -> Launch:
    """Read a command line (`command` followed by `args`)."""
    if not argv:
        return Launch(Launcher.NONE)
    program = argv[0].rsplit("/", 1)[-1]
    if program == "torchrun":
        return _torchrun(tuple(argv[:1]), argv[1:])
    if program in _PROGRAMS:
        return _subcommand(_PROGRAMS[program], tuple(argv[:1]), argv[1:])
    if program == "accelerate":
        return Launch(Launcher.ACCELERATE, tuple(argv[:1]), rest=tuple(argv[1:]))
    if program in _SHELLS:
        return Launch(Launcher.SHELL, tuple(argv[:1]), rest=tuple(argv[1:]))
    if program.startswith("python"):
        return _python(argv)
    return Launch(Launcher.OTHER, tuple(argv[:1]), rest=tuple(argv[1:]))


def is_true(value: str | None) -> bool:
    """Return whether an annotation's or env's text means yes."""
    return value is not None and value.strip().lower() in {"1", "true", "yes", "on"}


def _subcommand(launcher: Launcher, head: tuple[str, ...], rest: Sequence[str]) -> Launch:
    target = rest[0] if rest and not rest[0].startswith("-") else ""
    return Launch(launcher, head, target=target, rest=tuple(rest[1:] if target else rest))


def _python(argv: Sequence[str]) -> Launch:
    position = 1
    while position < len(argv) and argv[position].startswith("-") and argv[position] not in {"-m", "-c", "-"}:
        position += 2 if argv[position] in _PYTHON_FLAGS_WITH_VALUE else 1
    if position + 1 < len(argv) and argv[position] == "-m":
        module, head, rest = argv[position + 1], tuple(argv[: position + 2]), argv[position + 2 :]
        if module in _TORCHRUN_MODULES:
            return _torchrun(head, rest)
        if module in _PYTHON_MODULES:
            return _subcommand(_PYTHON_MODULES[module], head, rest)
        if module in _ACCELERATE_MODULES:
            return Launch(Launcher.ACCELERATE, head, rest=tuple(rest))
        return Launch(Launcher.PYTHON, tuple(argv[:position]), module=True, target=module, rest=tuple(rest))
    target = argv[position] if position < len(argv) else ""
    return Launch(Launcher.PYTHON, tuple(argv[:position]), target=target, rest=tuple(argv[position + 1 :]))


def _option(token: str) -> tuple[str, bool, str]:
    if not token.startswith("--") and len(token) > 2:
        return token[1], True, token[2:].lstrip("=")
    name, equals, value = token.lstrip("-").partition("=")
    return name.replace("-", "_"), bool(equals), value


def _torchrun(head: tuple[str, ...], rest: Sequence[str]) -> Launch:
    values: dict[str, str] = {}
    position = 0
    while position < len(rest) and rest[position].startswith("-"):
        name, attached, value = _option(rest[position])
        takes_value = not attached and name not in _TORCHRUN_FLAGS
        if takes_value and position + 1 < len(rest):
            value = rest[position + 1]
        values[name] = value
        position += 2 if takes_value else 1
    module = "m" in values or "module" in values
    target = rest[position] if position < len(rest) else ""
    options = tuple(option for option in rest[:position] if option not in {"-m", "--module"})
    return Launch(Launcher.TORCHRUN, head, options, values, module, target, tuple(rest[position + 1 :]))
