"""Invocations: the ways in which people start a TRL training, read into one form.

They are `trl sft ARGS`, `torchrun ... -m trl.scripts.sft ARGS`, `torchrun ... trl sft ARGS` (which hangs), `python -m
trl.scripts.sft ARGS`, and no command at all where args, an annotation or the runtime name the method. A program of our
images that trains by TRL (`muster_rollouts.train`) is read like one of TRL's scripts. Programs that only execute the
words behind them (`env A=1`, `nohup`, `tini --`, `numactl`, `uv run`) may stand in front. Anything else is the user's
own program, for which `read` returns None; `within` reads a training in it for validation alone.
"""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from muster.strategies.documents import names
from muster.strategies.frameworks.trl import flags
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import launches
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site

__all__ = ["SCRIPTS", "Form", "Invocation", "asks_for_help", "launched", "read", "within"]

SCRIPTS = "trl.scripts."
_SCRIPT_FILE = r"(?:.*/)?trl/scripts/(\w+)\.py"
_EXECUTING = frozenset(
    {"nohup", "nice", "ionice", "chrt", "taskset", "numactl", "stdbuf", "setsid", "timeout", "uv run", "env"}
    | {"tini", "tini-static", "docker-init", "dumb-init", "catatonit"}
)
"""Wrappers behind which another program can stand without a difference."""
_NEW_PLACE = ("--with", "--isolated", "--module", "-m", "--script", "-s", "--gui-script")
"""Options of `uv run` with which torchrun may be that of another place than trl, or no program at all."""
_OF_LAUNCHERS = ("PET_", "MASTER_", "ACCELERATE_", "WORLD_SIZE", "RANK", "LOCAL_", "CUDA_VISIBLE_DEVICES")
_HELP = frozenset({"-h", "--help", "-v", "--version"})


class Form(Enum):
    """How the training is started."""

    TRL = "trl <method>"
    TORCHRUN = "torchrun -m trl.scripts.<method>"
    TORCHRUN_TRL = "torchrun around trl"
    MODULE = "python -m trl.scripts.<method>"
    IMPLIED = "no command"
    ACCELERATE = "accelerate launch of trl.scripts.<method>"


class Invocation(Struct, frozen=True):
    """One TRL training.

    Attributes:
        method: `sft`, `dpo`, ...; the module of a program of our images.
        form: how it was written.
        args: arguments of the script, in order.
        head: the launcher's own words, with its interpreter or folder.
        options: torchrun's own options, kept as written.
        said_by: what names the method when the command does not; "" when it does.
        prefix: words of the wrappers in front, kept as written.
        installed: whether the script is that of the installed trl; a file may be of any version.
    """

    method: str
    form: Form
    args: tuple[str, ...]
    head: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    said_by: str = ""
    prefix: tuple[str, ...] = ()
    installed: bool = True

    @property
    def is_program(self) -> bool:
        """Whether it is a program of our images, which TRL has no command for."""
        return self.method in flags.programs()

    @property
    def module(self) -> str:
        """The module that python runs."""
        return self.method if self.is_program else f"{SCRIPTS}{self.method}"

    @property
    def called(self) -> str:
        """What messages call it: `trl sft`."""
        return self.method if self.is_program else f"trl {self.method}"

    @property
    def torchrun(self) -> tuple[str, ...]:
        """The torchrun that belongs to `head`: that of the same interpreter, or in the same folder; wrapped alike."""
        return (*self.prefix, *self._torchrun)

    @property
    def _torchrun(self) -> tuple[str, ...]:
        if self.form in (Form.TORCHRUN, Form.TORCHRUN_TRL):
            return self.head
        if self.form is Form.MODULE:
            return (*self.head, "-m", "torch.distributed.run")
        if len(self.head) > 1:
            return (*self.head[:-1], "torch.distributed.run")
        folder = self.head[0].rpartition("/")[0] if self.head else ""
        return (f"{folder}/torchrun",) if folder else ("torchrun",)


def read(site: Site, job: Job) -> Invocation | None:
    """Read the site's command line, with the annotation `muster.dev/trl-method` of the job or its runtime."""
    kept = job.memory.get(read)
    if kept is None or kept[0] is not site:  # a decision asks some three times, of the same site until it is changed
        kept = job.memory[read] = (site, _read(site, job))
    found: Invocation | None = kept[1]
    return found


def _read(site: Site, job: Job) -> Invocation | None:
    prefix, launch = _unwrapped(site)
    if launch.launcher is Launcher.TORCHRUN:
        found = _under_torchrun(launch)
    elif launch.launcher is Launcher.TRL:
        found = _under_trl(launch, job)
    elif launch.launcher is Launcher.PYTHON and launch.module and (method := _of_module(launch)):
        found = _known(Invocation(method, Form.MODULE, launch.rest, launch.head))
    elif not site.command:
        found = _implied(site.args, job)
    else:
        found = None
    if found is None:
        return None
    return _renamed(replace(found, prefix=prefix) if prefix else found, site, job)


def launched(site: Site) -> Launch:
    """Return the launch of the site that `read` reads: the bare one, or that behind wrappers."""
    return _unwrapped(site)[1]


def asks_for_help(launch: Launch) -> bool:
    """Tell whether a launch of trl asks for its help or version, and means to train nothing."""
    return bool(_HELP & set(launch.rest))


def within(launch: Launch) -> Invocation | None:
    """Read a launch that cannot be rewritten: in a shell, behind other wrappers, or of a file of TRL's."""
    method, installed = _script(launch)
    if launch.launcher is Launcher.TRL:
        found = Invocation(launch.target, Form.TRL, launch.rest, launch.head)
    elif launch.launcher is Launcher.TORCHRUN and not method:
        return _under_torchrun(launch)
    elif launch.launcher in _FORMS and method:
        found = Invocation(method, _FORMS[launch.launcher], launch.rest, launch.head, launch.options)
    else:
        return None
    return _known(replace(found, installed=installed))


_FORMS = {
    Launcher.TORCHRUN: Form.TORCHRUN,
    Launcher.PYTHON: Form.MODULE,
    Launcher.ACCELERATE: Form.ACCELERATE,
}


def _script(launch: Launch) -> tuple[str, bool]:
    """Return the method whose script a launch starts, "" for another program, and whether it is the installed one."""
    if launch.module and (method := _of_module(launch)):
        return method, True
    found = re.fullmatch(_SCRIPT_FILE, launch.target)
    return (found[1], "site-packages/" in launch.target) if found else ("", True)


def _of_module(launch: Launch) -> str:
    """Return the method whose module a launch runs, "" for another module."""
    if launch.target in flags.programs():
        return launch.target
    return launch.target.removeprefix(SCRIPTS) if launch.target.startswith(SCRIPTS) else ""


def _unwrapped(site: Site) -> tuple[tuple[str, ...], Launch]:
    """Return the words of wrappers that only execute what is behind them, and the launch behind them."""
    bare = site.launch
    inner = site.reading.only if bare.launcher is Launcher.OTHER else None
    if inner is None or not inner.through or not set(inner.through) <= _EXECUTING:
        return (), bare
    if any(name.startswith(_OF_LAUNCHERS) for name in inner.env):
        return (), bare
    for start, word in enumerate(site.argv):
        if inner.head[:1] == (word,) and _words(launches.parse(site.argv[start:])) == _words(inner):
            before = site.argv[:start]
            return (before, inner) if _keeps(before) else ((), bare)
    return (), bare


def _words(launch: Launch) -> tuple[object, ...]:
    return launch.launcher, launch.head, launch.options, launch.target, launch.rest


def _keeps(prefix: tuple[str, ...]) -> bool:
    """Whether the wrappers leave env and interpreter as they are: no option of `env`, none of `uv run` that matters."""
    for index, word in enumerate(prefix):
        if launches.program(word) == "env" and prefix[index + 1 : index + 2] and prefix[index + 1].startswith("-"):
            return False
        if "uv" in map(launches.program, prefix[:index]) and word.startswith(_NEW_PLACE):
            return False
    return True


def _known(found: Invocation) -> Invocation | None:
    return found if found.method in flags.methods() or (found.is_program and found.form in _MODULES) else None


_MODULES = (Form.TORCHRUN, Form.MODULE, Form.ACCELERATE)


def _under_torchrun(launch: Launch) -> Invocation | None:
    if launch.module and (method := _of_module(launch)):
        return _known(Invocation(method, Form.TORCHRUN, launch.rest, launch.head, launch.options))
    if launches.program(launch.target) in ("trl", "trl.cli") and launch.rest:
        options = tuple(option for option in launch.options if option not in {"--no-python", "--no_python"})
        return _known(Invocation(launch.rest[0], Form.TORCHRUN_TRL, launch.rest[1:], launch.head, options))
    return None


def _under_trl(launch: Launch, job: Job) -> Invocation | None:
    if launch.target:
        return _known(Invocation(launch.target, Form.TRL, launch.rest, launch.head))
    annotated = job.annotation(names.TRL_METHOD_ANNOTATION)
    if annotated is None or asks_for_help(launch):
        return None
    return _known(Invocation(annotated[0], Form.TRL, launch.rest, launch.head, said_by=annotated[1]))


def _implied(args: tuple[str, ...], job: Job) -> Invocation | None:
    if args and args[0] in flags.methods():
        return Invocation(args[0], Form.IMPLIED, args[1:], said_by="first argument")
    annotated = job.annotation(names.TRL_METHOD_ANNOTATION)
    return _known(Invocation(annotated[0], Form.IMPLIED, args, said_by=annotated[1])) if annotated else None


def _renamed(found: Invocation, site: Site, job: Job) -> Invocation:
    """Let a job choose another method than its runtime's command: by first argument, or by its own annotation."""
    if site.own_command or found.form is Form.IMPLIED:
        return found
    if found.args and found.args[0] in flags.methods():
        return replace(found, method=found.args[0], args=found.args[1:], said_by="first argument")
    annotated = job.annotation(names.TRL_METHOD_ANNOTATION)
    if annotated and not annotated[1].startswith("runtime") and annotated[0] in flags.methods() - {found.method}:
        return replace(found, method=annotated[0], said_by=annotated[1])
    return found
