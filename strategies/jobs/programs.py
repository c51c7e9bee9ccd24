"""Programs: what a container starts, as far as it says which replicated jobs of a JobSet train together.

The words of a command line are read elsewhere (`muster.strategies.launches.program_kinds`); a `Job` is given the
function for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

from msgspec import Struct

__all__ = ["Identify", "Kind", "Program", "unknown"]


class Kind(IntEnum):
    """What a program does; of two that may be the training, the higher one is."""

    SERVER = 0
    """Answers requests: `vllm serve`, `trl vllm-serve`."""
    CLUSTER = 1
    """Holds a pod for processes that something else places there: `ray start`, a daemon of ssh."""
    IDLE = 2
    """Was read, and starts no program that trains: `tail`, `sleep`."""
    UNKNOWN = 3
    """Cannot be read: the image's own entrypoint, a script."""
    PYTHON = 4
    """A Python program, which may train."""
    LAUNCHER = 5
    """A launcher of training processes: torchrun, `accelerate launch`, `trl sft`, `tune run`."""
    REMOTE = 6
    """Starts the processes of other pods itself: `mpirun`, `deepspeed --hostfile`, a program of Ray's head."""


class Program(Struct, frozen=True):
    """What a container starts.

    Attributes:
        kind: what it does.
        launcher: name of the launcher, `torchrun`.
        target: the program, module, recipe or method that the launcher starts; "" where it is not known.
        nodes: number of nodes that the command line names, None for none or a range.
        rank: the node's rank as the command line itself gives it, a number or words of a shell; "" where it does not.
        master: host or endpoint at which the command line lets the nodes meet, "" for none.
    """

    kind: Kind = Kind.UNKNOWN
    launcher: str = ""
    target: str = ""
    nodes: int | None = None
    rank: str = ""
    master: str = ""


Identify = Callable[[Sequence[str]], Program]
"""From a command line (`command` followed by `args`) to what it starts."""


def unknown(_argv: Sequence[str]) -> Program:
    """Identify nothing."""
    return Program()
