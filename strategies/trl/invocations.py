"""Invocations: the many ways in which people ask for a TRL training, read into one form.

`trl sft ARGS`, `torchrun ... -m trl.scripts.sft ARGS`, `torchrun ... trl sft ARGS` (which hangs), `python -m
trl.scripts.sft ARGS`, and no command at all where args, an annotation or the runtime name the method. Anything else is
the user's own program and reads as None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from strategies import names
from strategies.jobs import Job
from strategies.launches import Launch, Launcher
from strategies.sites import Site
from strategies.trl import flags

__all__ = ["SCRIPTS", "Form", "Invocation", "read"]

SCRIPTS = "trl.scripts."


class Form(Enum):
    """How the training was written; each value names it in a reason."""

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
        args: of the script, in order.
        options: torchrun's own options, kept as written.
        said_by: what named the method when the command did not; "" when it did.
    """

    method: str
    form: Form
    args: tuple[str, ...]
    options: tuple[str, ...] = ()
    said_by: str = ""


def read(site: Site, job: Job) -> Invocation | None:
    """Read the site's command line, with the annotation `muster.dev/trl-method` of the job or its runtime."""
    launch = site.launch
    if launch.launcher is Launcher.TORCHRUN:
        found = _under_torchrun(launch)
    elif launch.launcher is Launcher.TRL:
        found = _under_trl(launch, job)
    elif launch.launcher is Launcher.PYTHON and launch.module and launch.target.startswith(SCRIPTS):
        found = _known(launch.target.removeprefix(SCRIPTS), Form.MODULE, launch.rest)
    elif not site.command:
        found = _implied(site.args, job)
    else:
        found = None
    return None if found is None else _renamed(found, site, job)


def _known(
    method: str, form: Form, args: Sequence[str], options: Sequence[str] = (), said_by: str = ""
) -> Invocation | None:
    if method not in flags.methods():
        return None
    return Invocation(method, form, tuple(args), tuple(options), said_by)


def _under_torchrun(launch: Launch) -> Invocation | None:
    if launch.module and launch.target.startswith(SCRIPTS):
        return _known(launch.target.removeprefix(SCRIPTS), Form.TORCHRUN, launch.rest, launch.options)
    program = launch.target.rsplit("/", 1)[-1]
    if program == "trl" and launch.rest:
        options = tuple(option for option in launch.options if option != "--no-python" and option != "--no_python")
        return _known(launch.rest[0], Form.TORCHRUN_TRL, launch.rest[1:], options)
    return None


def _under_trl(launch: Launch, job: Job) -> Invocation | None:
    if launch.target:
        return _known(launch.target, Form.TRL, launch.rest)
    annotated = job.annotation(names.TRL_METHOD_ANNOTATION)
    return _known(annotated[0], Form.TRL, launch.rest, said_by=annotated[1]) if annotated else None


def _implied(args: Sequence[str], job: Job) -> Invocation | None:
    if args and args[0] in flags.methods():
        return _known(args[0], Form.IMPLIED, args[1:], said_by="its first argument")
    annotated = job.annotation(names.TRL_METHOD_ANNOTATION)
    return _known(annotated[0], Form.IMPLIED, args, said_by=annotated[1]) if annotated else None


def _renamed(found: Invocation, site: Site, job: Job) -> Invocation:
    """Let a job choose another method than its runtime's command: by first argument, or by its own annotation."""
    if site.own_command:
        return found
    if found.args and found.args[0] in flags.methods():
        return Invocation(found.args[0], found.form, found.args[1:], found.options, "its first argument")
    annotated = job.annotation(names.TRL_METHOD_ANNOTATION)
    if annotated and not annotated[1].startswith("runtime") and annotated[0] in flags.methods() - {found.method}:
        return Invocation(annotated[0], found.form, found.args, found.options, annotated[1])
    return found
