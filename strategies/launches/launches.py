"""Launches: what a container's command line starts, read without running it.

The command never decides which strategy is used, but a strategy may only rewrite a command that it understands. `parse`
names the launcher, its own options and the program behind it; an unknown launcher is `OTHER`. The options of torchrun
and accelerate are in `upstream`, printed from their own parsers, those of the others in `launchers.json`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Required, TypedDict, cast

from msgspec import Struct, field
from msgspec.structs import replace

from muster.strategies import upstream
from muster.strategies.launches.options import Table, split, table
from muster.strategies.shell import Loss

__all__ = ["MAX_WORDS", "SHELLS", "STRICT", "TRL_FLAGS", "Launch", "Launcher", "parse", "program"]


class Launcher(Enum):
    """What starts the processes. `PYTHON` is a plain program; `NONE` leaves it to the image's own entrypoint."""

    NONE = "none"
    TORCHRUN = "torchrun"
    TRL = "trl"
    ACCELERATE = "accelerate"
    TUNE = "tune"
    VLLM = "vllm"
    DEEPSPEED = "deepspeed"
    COMPOSER = "composer"
    MPI = "mpirun"
    RAY = "ray"
    FABRIC = "fabric"
    PYTHON = "python"
    SHELL = "shell"
    OTHER = "other"


class Launch(Struct, frozen=True):
    """A parsed command line.

    `head`, `options`, `target` and `rest` hold all of its words except torchrun's or python's `-m`, a `--`, and the
    text of `STRICT`, which reads as its module.

    Attributes:
        launcher: what starts the processes.
        head: the launcher's own words, without its options: `("torchrun",)`, `("tune", "run")`.
        options: the launcher's own options as they were written.
        values: the same by full name, without leading dashes and with _ for inner ones: `{"nproc_per_node": "4"}`. Of
            `trl`, whose script and launcher share one list of arguments, those for accelerate that say how many
            processes there are. A value that only the pod knows has the form of Kubernetes, `$(NAME)`, whatever the
            shell's was; another text with a `$` is not known either, and can be no number.
        module: whether `target` is a Python module (`-m`).
        target: program, module, subcommand or recipe that is started; "" when there is none.
        rest: its arguments.
        unknown: options that the launcher does not have; it would refuse them.
        repeated: the launcher's own options that stand more than once with different values, by full name: all values.
        env: variables that a wrapper or a shell sets for this launch; None for a value that cannot be read.
        assigned: variables that a shell sets and does not export: they reach the launch only where the container's env
            has the name.
        cleared: whether a wrapper takes away the env of the container (`env -i`).
        unseen: whether the shell has taken variables from a file or a program before, so that any name may be set.
        through: programs around the launch, outermost first: `("bash", "uv run")`; empty for a bare launch.
        certain: whether it runs exactly once; False inside a branch, a loop, or the background of a shell that does not
            wait for it.
        chosen: variables that decide which nodes reach it, where the other nodes reach no launch at all.
        lost: how a shell loses the status with which it ends, and the program whose status the shell has instead; None
            where it counts.
        wave: a number that it shares with the launches that run at the same time; 0 where it runs alone.
        written: files that the shell around it has written, of those that it reads, by name: name and text.
    """

    launcher: Launcher
    head: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    module: bool = False
    target: str = ""
    rest: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    assigned: Mapping[str, str | None] = field(default_factory=dict)
    cleared: bool = False
    unseen: bool = False
    through: tuple[str, ...] = ()
    certain: bool = True
    chosen: frozenset[str] = frozenset()
    lost: tuple[Loss, str] | None = None
    written: Mapping[str, str] = field(default_factory=dict)
    wave: int = 0

    @property
    def starts_torchrun(self) -> bool:
        """Whether torchrun starts the processes: directly, or through `tune run`."""
        return self.launcher is Launcher.TORCHRUN or (self.launcher is Launcher.TUNE and self.head[-1] == "run")


_PYTHON = r"python[\d.]*t?"
_PYTHON_VALUES = "WX"
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_TRL_MODULES = frozenset({"trl", "trl.cli", "trl.cli.main"})
STRICT = "from {} import main, make_parser; main(*make_parser().parse_args_and_config())"
"""What `torchrun -- -c` runs of a script of TRL, which as a module ignores the keys of a file that it does not know."""
_STRICT = re.escape(STRICT).replace(r"\{\}", r"(trl\.scripts\.\w+)")


MAX_WORDS = 2_048
"""Longer command lines are not parsed: a TrainJob may have 256 words, but a JobSet's container any number."""


def parse(argv: Sequence[str]) -> Launch:
    """Parse a command line (`command` followed by `args`); one of more than `MAX_WORDS` words is `OTHER`."""
    words = tuple(argv)
    return _cached(words) if len(words) <= _FEW and sum(map(len, words)) <= _SHORT else _parse(words)


_FEW, _SHORT = 64, 2_048  # words and characters of a command line that is remembered


def _parse(argv: Sequence[str]) -> Launch:
    if not argv or len(argv) > MAX_WORDS:
        return Launch(Launcher.OTHER if argv else Launcher.NONE, tuple(argv[:1]), rest=tuple(argv[1:]))
    head, rest, name = tuple(argv[:1]), tuple(argv[1:]), program(argv[0])
    if name in _PROGRAMS:
        return _PROGRAMS[name](head, rest)
    if re.fullmatch(_PYTHON, name):
        return _python(argv)
    return Launch(Launcher.SHELL if name in SHELLS else Launcher.OTHER, head, rest=rest)


_cached = functools.lru_cache(maxsize=512)(_parse)  # a decision asks some five times, and jobs are alike


def program(word: str) -> str:
    """Return the name of a program that may be written with its folder."""
    return word.rsplit("/", 1)[-1]


def _subcommand(launcher: Launcher, head: tuple[str, ...], rest: Sequence[str]) -> Launch:
    target = rest[0] if rest and not rest[0].startswith("-") else ""
    return Launch(launcher, head, target=target, rest=tuple(rest[1:] if target else rest))


def _python(argv: Sequence[str]) -> Launch:
    """Read `python [options] [-m module | -c text | file] arguments`; one-letter options may be combined."""
    head = list(argv[:1])
    rest = list(argv[1:])
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        letter = "" if word.startswith("--") else _deciding_letter(word)
        before, _, attached = word.partition(letter) if letter else (word, "", "")
        if letter == "m":
            module = attached or (rest.pop(0) if rest else "")
            return _python_module((*head, *((before,) if before != "-" else ())), module, rest)
        if letter == "c":
            return Launch(Launcher.PYTHON, tuple(head), target=word, rest=tuple(rest))
        head.append(word)
        if rest and ((letter in _PYTHON_VALUES and letter and not attached) or word == "--check-hash-based-pycs"):
            head.append(rest.pop(0))
    target = rest.pop(0) if rest else ""
    return Launch(Launcher.PYTHON, tuple(head), target=target, rest=tuple(rest))


def _deciding_letter(word: str) -> str:
    """Return the first letter of a cluster of options that ends it, because the rest belongs to that letter."""
    return next((letter for letter in word[1:] if letter in "mc" + _PYTHON_VALUES), "")


def _python_module(interpreter: tuple[str, ...], module: str, rest: Sequence[str]) -> Launch:
    read = _MODULES.get(module)
    if read is not None:
        return read((*interpreter, "-m", module), tuple(rest))
    return Launch(Launcher.PYTHON, interpreter, module=True, target=module, rest=tuple(rest))


_Words = tuple[str, ...]
_Reader = Callable[[_Words, _Words], Launch]


def _launcher(launcher: Launcher, table: Table, *, module: str = "") -> _Reader:
    """Return what reads a launcher that has options, a program and its arguments.

    Args:
        launcher: the launcher.
        table: its options.
        module: full name of its switch that says that the program is a module.
    """

    def read(head: _Words, words: _Words) -> Launch:
        found = split(table, words, hidden=module)
        return Launch(
            launcher,
            head,
            found.words,
            found.values,
            module in found.values,
            target=found.rest[0] if found.rest else "",
            rest=found.rest[1:],
            unknown=found.unknown,
            repeated=found.repeated,
        )

    return read


def _commands(launcher: Launcher, known: Mapping[str, _Reader]) -> _Reader:
    """Return what reads a program with subcommands, of which `known` launch something."""

    def read(head: _Words, words: _Words) -> Launch:
        named = known.get(words[0]) if words else None
        return named((*head, words[0]), words[1:]) if named else _subcommand(launcher, head, words)

    return read


def _subcommands(launcher: Launcher) -> _Reader:
    return lambda head, words: _subcommand(launcher, head, words)


class _Entry(TypedDict, total=False):
    options: Required[str]
    rules: Mapping[str, bool]


_OWN: object = json.loads(Path(__file__).with_name("launchers.json").read_text(encoding="utf-8"))


def _table(name: str, package: str = "") -> Table:
    """Return the options of a launcher; `launchers.json` says where those of each are from."""
    entry = cast("Mapping[str, _Entry]", upstream.data(package, "launchers") if package else _OWN)[name]
    return table(entry["options"], **entry.get("rules", {}))


TRL_FLAGS = _table("trl", "accelerate")
"""The flags of accelerate among those of `trl` that say where processes run (`trl/cli/`)."""
_COUNTED = tuple({f"--{name[:3]}" for name in TRL_FLAGS.counts})  # flags that are spelt with - or _ after that


def _trl(head: _Words, words: _Words) -> Launch:
    """Read `trl`: flags of accelerate stand anywhere among the script's (trl `trl/cli/commands/training.py`)."""
    launch = _subcommand(Launcher.TRL, head, words)
    names = (word[2:].partition("=")[0].replace("-", "_") for word in launch.rest if word.startswith(_COUNTED))
    if not any(name in TRL_FLAGS.counts for name in names):
        return launch
    found = split(TRL_FLAGS, launch.rest)
    return replace(
        launch,
        values={name: value for name, value in found.values.items() if name in TRL_FLAGS.counts},
        repeated={name: values for name, values in found.repeated.items() if name in TRL_FLAGS.counts},
    )


def _torchrun(head: _Words, words: _Words) -> Launch:
    """Read `torchrun`; `-c` behind its options is the text that its python runs."""
    launch = _TORCHRUN(head, words)
    script = re.fullmatch(_STRICT, launch.rest[0]) if launch.target == "-c" and launch.rest else None
    return launch if script is None else replace(launch, module=True, target=script[1], rest=launch.rest[1:])


def _fabric_run(head: _Words, words: _Words) -> Launch:
    """Read `fabric run`, and the `run model` of lightning before 2.4."""
    return _FABRIC((*head, "model"), words[1:]) if words[:1] == ("model",) else _FABRIC(head, words)


def _ray_job(head: _Words, words: _Words) -> Launch:
    return _RAY((*head, "submit"), words[1:]) if words[:1] == ("submit",) else _subcommand(Launcher.RAY, head, words)


_ACCELERATE = _launcher(Launcher.ACCELERATE, _table("launch", "accelerate"), module="module")
_COMPOSER = _launcher(Launcher.COMPOSER, _table("composer"), module="module_mode")
_DEEPSPEED = _launcher(Launcher.DEEPSPEED, _table("deepspeed"), module="module")
_FABRIC = _launcher(Launcher.FABRIC, _table("fabric"))
_HOROVOD = _launcher(Launcher.MPI, _table("horovodrun"))
_MPI = _launcher(Launcher.MPI, _table("mpirun"))
_RAY = _launcher(Launcher.RAY, _table("ray_job_submit"))
_TORCHRUN = _launcher(Launcher.TORCHRUN, _table("torchrun", "torch"), module="module")
_TUNE_RUN = _launcher(Launcher.TUNE, _table("torchrun", "torch"), module="module")
_ACCELERATE_CLI = _commands(Launcher.ACCELERATE, {"launch": _ACCELERATE})
_FABRIC_CLI = _commands(Launcher.FABRIC, {"run": _fabric_run})
_PROGRAMS: Mapping[str, _Reader] = {
    "accelerate": _ACCELERATE_CLI,
    "accelerate-launch": _ACCELERATE,
    "composer": _COMPOSER,
    "deepspeed": _DEEPSPEED,
    "deepspeed.pt": _DEEPSPEED,
    "ds": _DEEPSPEED,
    "fabric": _FABRIC_CLI,
    "lightning": _FABRIC_CLI,
    "horovodrun": _HOROVOD,
    **dict.fromkeys(
        ("mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra", "mpiexec.mpich", "mpirun.openmpi"), _MPI
    ),
    "ray": _commands(Launcher.RAY, {"job": _ray_job}),
    "torchrun": _torchrun,
    "trl": _trl,
    "tune": _commands(Launcher.TUNE, {"run": _TUNE_RUN}),
    "vllm": _subcommands(Launcher.VLLM),
}
_MODULES: Mapping[str, _Reader] = {
    "accelerate.commands.accelerate_cli": _ACCELERATE_CLI,
    "accelerate.commands.launch": _ACCELERATE,
    "composer": _COMPOSER,
    "composer.cli": _COMPOSER,
    "composer.cli.launcher": _COMPOSER,
    "deepspeed": _DEEPSPEED,
    "deepspeed.launcher.runner": _DEEPSPEED,
    "horovod.runner.launch": _HOROVOD,
    "lightning.fabric.cli": _FABRIC_CLI,
    "lightning_fabric.cli": _FABRIC_CLI,
    "torch.distributed.launch": _launcher(Launcher.TORCHRUN, _table("distributed_launch", "torch"), module="module"),
    "torch.distributed.run": _torchrun,
    **dict.fromkeys(_TRL_MODULES, _trl),
}
