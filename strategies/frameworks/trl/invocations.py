"""Invocations: the ways in which people start a TRL training, read into one form.

They are `trl sft ARGS`, `torchrun ... -m trl.scripts.sft ARGS`, `torchrun ... trl sft ARGS` (which hangs), `python -m
trl.scripts.sft ARGS`, and no command at all where args, an annotation or the runtime name the method. Anything else is
the user's own program, for which `read` returns None.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from strategies.documents import names
from strategies.frameworks.trl import flags
from strategies.jobs.jobs import Job
from strategies.launches import launches
from strategies.launches.launches import Launch, Launcher
from strategies.launches.sites import Site

__all__ = ["SCRIPTS", "Form", "Invocation", "read"]

SCRIPTS = "trl.scripts."
_HELP = frozenset({"-h", "--help", "-v", "--version"})


class Form(Enum):
    """How the training is started."""

    TRL = "trl <method>"
    TORCHRUN = "torchrun -m trl.scripts.<method>"
    TORCHRUN_TRL = "torchrun around trl"
    MODULE = "python -m trl.scripts.<method>"
    IMPLIED = "no command"


@dataclass(frozen=True, slots=True)
class Invocation:
    """One TRL training.

    Attributes:
        method: `sft`, `dpo`, ...
        form: how it was written.
        args: arguments of the script, in order.
        head: the launcher's own words, with its interpreter or folder.
        options: torchrun's own options, kept as written.
        said_by: what names the method when the command does not; "" when it does.
    """

    method: str
    form: Form
    args: tuple[str, ...]
    head: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    said_by: str = ""

    @property
    def torchrun(self) -> tuple[str, ...]:
        """The torchrun that belongs to `head`: that of the same interpreter, or in the same folder."""
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
    launch = site.launch
    if launch.launcher is Launcher.TORCHRUN:
        found = _under_torchrun(launch)
    elif launch.launcher is Launcher.TRL:
        found = _under_trl(launch, job)
    elif launch.launcher is Launcher.PYTHON and launch.module and launch.target.startswith(SCRIPTS):
        method = launch.target.removeprefix(SCRIPTS)
        found = _known(Invocation(method, Form.MODULE, launch.rest, launch.head))
    elif not site.command:
        found = _implied(site.args, job)
    else:
        found = None
    return None if found is None else _renamed(found, site, job)


def _known(found: Invocation) -> Invocation | None:
    return found if found.method in flags.methods() else None


def _under_torchrun(launch: Launch) -> Invocation | None:
    if launch.module and launch.target.startswith(SCRIPTS):
        method = launch.target.removeprefix(SCRIPTS)
        return _known(Invocation(method, Form.TORCHRUN, launch.rest, launch.head, launch.options))
    if launches.program(launch.target) in ("trl", "trl.cli") and launch.rest:
        options = tuple(option for option in launch.options if option not in {"--no-python", "--no_python"})
        return _known(Invocation(launch.rest[0], Form.TORCHRUN_TRL, launch.rest[1:], launch.head, options))
    return None


def _under_trl(launch: Launch, job: Job) -> Invocation | None:
    if launch.target:
        return _known(Invocation(launch.target, Form.TRL, launch.rest, launch.head))
    annotated = job.annotation(names.TRL_METHOD_ANNOTATION)
    if annotated is None or _HELP & set(launch.rest):
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
