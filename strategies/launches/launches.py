"""Launches: what a container's command line starts, read without running it.

The command never decides which strategy is used, but a strategy may only rewrite a command that it understands. `parse`
names the launcher, its own options and the program behind it; an unknown launcher is `OTHER`. torchrun's options are
those of torch 2.13 `torch/distributed/run.py`; each may be written with - or _, and abbreviated while it stays unique.
`tune run` takes them too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["MAX_WORDS", "Launch", "Launcher", "parse", "program"]


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
    PYTHON = "python"
    SHELL = "shell"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Launch:
    """A parsed command line.

    `head`, `options`, `target` and `rest` hold all of its words except torchrun's or python's `-m` and a `--`.

    Attributes:
        launcher: what starts the processes.
        head: the launcher's own words, without its options: `("torchrun",)`, `("tune", "run")`.
        options: the launcher's own options as they were written.
        values: the same by full name, without leading dashes and with _ for inner ones: `{"nproc_per_node": "4"}`.
        module: whether `target` is a Python module (`-m`).
        target: program, module, subcommand or recipe that is started; "" when there is none.
        rest: its arguments.
        repeated: the launcher's own options that stand more than once with different values, by full name: all values.
        env: variables that a wrapper or a shell sets for this launch; None for a value that cannot be read.
        through: programs around the launch, outermost first: `("bash", "uv run")`; empty for a bare launch.
        certain: whether it runs exactly once; False inside a branch, a loop, a function or the background of a shell.
    """

    launcher: Launcher
    head: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    module: bool = False
    target: str = ""
    rest: tuple[str, ...] = ()
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    through: tuple[str, ...] = ()
    certain: bool = True

    @property
    def starts_torchrun(self) -> bool:
        """Whether torchrun starts the processes: directly, through `tune run`, or named in a shell's text."""
        if self.launcher in (Launcher.SHELL, Launcher.OTHER):
            text = self.text
            return "torchrun" in text or "torch.distributed.run" in text
        return self.launcher is Launcher.TORCHRUN or (self.launcher is Launcher.TUNE and self.head[-1] == "run")

    @property
    def text(self) -> str:
        """All words in one string, for searches in a shell's script."""
        return " ".join((*self.head, *self.options, self.target, *self.rest))


_FLAGS = ("standalone", "m", "module", "no_python", "run_path", "virtual_local_rank", "use_env", "h", "help")
_OPTIONS = (
    *("nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port", "local_addr", "max_restarts"),
    *("rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "monitor_interval", "start_method", "role"),
    *("event_log_handler", "log_dir", "r", "redirects", "t", "tee", "local_ranks_filter", "logs_specs"),
    *("duplicate_stdout_filters", "duplicate_stderr_filters", "numa_binding", "signals_to_handle", "shutdown_timeout"),
)
_PYTHON = re.compile(r"python[\d.]*t?")
_PYTHON_VALUES = "WX"
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_TORCHRUN_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_PROGRAMS = {"trl": Launcher.TRL, "vllm": Launcher.VLLM}
_TRL_MODULES = frozenset({"trl", "trl.cli", "trl.cli.main"})
_ACCELERATE = frozenset({"accelerate", "accelerate-launch"})
_ACCELERATE_MODULES = frozenset({"accelerate.commands.launch", "accelerate.commands.accelerate_cli"})


MAX_WORDS = 2_048
"""Longer command lines are not parsed: a TrainJob may have 256 words, but a JobSet's container any number."""


def parse(argv: Sequence[str]) -> Launch:
    """Parse a command line (`command` followed by `args`); one of more than `MAX_WORDS` words is `OTHER`."""
    if not argv or len(argv) > MAX_WORDS:
        return Launch(Launcher.OTHER if argv else Launcher.NONE, tuple(argv[:1]), rest=tuple(argv[1:]))
    head, rest, name = tuple(argv[:1]), tuple(argv[1:]), program(argv[0])
    if name == "torchrun":
        return _torchrun(Launcher.TORCHRUN, head, rest)
    if name in _PROGRAMS:
        return _subcommand(_PROGRAMS[name], head, rest)
    if name == "tune":
        run = rest[:1] == ("run",)
        return _torchrun(Launcher.TUNE, (*head, "run"), rest[1:]) if run else _subcommand(Launcher.TUNE, head, rest)
    if _PYTHON.fullmatch(name):
        return _python(argv)
    launcher = Launcher.SHELL if name in _SHELLS else Launcher.OTHER
    return Launch(Launcher.ACCELERATE if name in _ACCELERATE else launcher, head, rest=rest)


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
    head = (*interpreter, "-m", module)
    if module in _TORCHRUN_MODULES:
        return _torchrun(Launcher.TORCHRUN, head, rest)
    if module in _TRL_MODULES:
        return _subcommand(Launcher.TRL, head, rest)
    if module in _ACCELERATE_MODULES:
        return Launch(Launcher.ACCELERATE, head, rest=tuple(rest))
    return Launch(Launcher.PYTHON, interpreter, module=True, target=module, rest=tuple(rest))


def _torchrun(launcher: Launcher, head: tuple[str, ...], words: Sequence[str]) -> Launch:
    values: dict[str, str] = {}
    options: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, attached, value = _option(word)
        if name not in ("m", "module"):
            options.append(word)
        if not attached and name not in _FLAGS and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
            options.append(value)
        values[name] = value
    module = "m" in values or "module" in values
    target = rest.pop(0) if rest else ""
    return Launch(launcher, head, tuple(options), values, module, target, tuple(rest))


def _option(word: str) -> tuple[str, bool, str]:
    """Return an option's full name, whether its value is attached, and that value."""
    if not word.startswith("--"):
        return word[1:2], len(word) > 2, word[2:].lstrip("=")
    written, equals, value = word[2:].partition("=")
    name = written.replace("-", "_")
    longer = [known for known in (*_FLAGS, *_OPTIONS) if len(known) > 1 and known.startswith(name)]
    return (longer[0] if len(longer) == 1 and name not in _OPTIONS else name), bool(equals), value
