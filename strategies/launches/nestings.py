"""Nestings: what stands behind a launcher, where python takes it for something else than its author does.

torchrun, accelerate and deepspeed hand their program to `python -u` unless an option says that it is none of python's
(torch `distributed/run.py` config_from_args, accelerate `utils/launch.py`, deepspeed
`launcher/launch.py`); `-m` takes the name of a module (cpython 3.12 `Lib/runpy.py` _get_module_details).
"""

from __future__ import annotations

from typing import NamedTuple

from muster.strategies.documents.findings import beginning
from muster.strategies.launches import launches
from muster.strategies.launches.launches import Launch, Launcher

__all__ = ["Nesting", "find"]


class Nesting(NamedTuple):
    """What is found out about the program of a launch.

    Attributes:
        fault: why the launch fails, as a clause; "" where nothing is known to be wrong.
        doubt: why it probably fails, as a clause.
        own: whether the program starts more processes.
    """

    fault: str = ""
    doubt: str = ""
    own: bool = False


def find(launch: Launch, processes: int | None) -> Nesting | None:
    """Judge the program of a launch; None where nothing is to be said.

    Args:
        launch: one launch.
        processes: processes of it in each pod, None when unknown.
    """
    if launch.module and "$" not in launch.target and ("/" in launch.target or launch.target.endswith(".py")):
        return _no_module(launch.target)
    if launch.launcher in _OF_PYTHON and not launch.module and "no_python" not in launch.values:
        kind = next((kind for end, kind in _FOREIGN.items() if launch.target.endswith(end)), "")
        if kind:
            name = beginning(launches.program(launch.target), 60)
            return Nesting(doubt=f"python would read {name}, {kind}, and stop; start it as what it is")
    if launch.launcher not in _OF_PROGRAMS or not launch.target:
        return None
    words = ("python", "-m", launch.target, *launch.rest) if launch.module else (launch.target, *launch.rest)
    inner, bare = launches.parse(words).launcher, launch.module or "no_python" in launch.values
    if inner in _STARTING:
        return _launcher(launch, processes, bare=bare)
    return _program(launch, inner) if inner in _RUNNING and not bare else None


_OF_PROGRAMS = frozenset({Launcher.TORCHRUN, Launcher.ACCELERATE, Launcher.DEEPSPEED})
_OF_PYTHON = _OF_PROGRAMS | {Launcher.PYTHON}
_FOREIGN = {".sh": "a script of a shell", ".bash": "a script of a shell", ".ipynb": "a notebook"}
_STARTING = _OF_PROGRAMS
_RUNNING = frozenset({Launcher.PYTHON, Launcher.SHELL})


def _no_module(target: str) -> Nesting:
    name = beginning(target, 60)
    if "/" in name:
        return Nesting(f"{name} is a path, and -m takes the name of a module; remove -m")
    member = f"{name} would be the member py of a package; remove -m or the .py"
    return Nesting(doubt=f"-m takes the name of a module, and {member}")


def _program(launch: Launch, inner: Launcher) -> Nesting:
    """Tell of a python or a shell that python would read as a script."""
    name = launches.program(launch.target)
    option = "--no-python" if launch.launcher is Launcher.TORCHRUN else "--no_python"
    cure = f"add {option}" + (", or name the script alone" if inner is Launcher.PYTHON else "")
    return Nesting(f"python would read {name} as a script, and stop; {cure}")


def _launcher(launch: Launch, processes: int | None, *, bare: bool) -> Nesting:
    """Tell of a launcher that each process would start again, or whose name python would take for a file."""
    name = launches.program(launch.target)
    if not bare and "/" not in launch.target:
        return Nesting(f"python would look for a file called {name}, and there is none; start {name} alone")
    if processes == 1:
        return Nesting(own=True)  # it starts the others
    fault = f"each of its processes would start a launcher of its own, {name}; start one of the two alone"
    return Nesting(fault=fault) if processes else Nesting(doubt=fault)
