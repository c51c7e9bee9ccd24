"""Containers: the one of a pod that does the pod's work, beside sidecars that may stand before it in the list.

Programs: what a container starts, as far as it says which replicated jobs of a JobSet train together.

The words of a command line are read elsewhere (`muster.strategies.launches.program_kinds`); a `Job` is given the
function for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum

from msgspec import Struct

from muster.strategies.documents import names
from muster.strategies.documents.model import Container, PodSpec
from muster.strategies.platform import devices

__all__ = ["Identify", "Kind", "Program", "choose", "holds_devices", "is_aside", "program", "unknown"]


_MAIN = frozenset({"trainer", "pytorch", "training", "train", "main", "worker", "leader", "master", "server", "vllm"})
_SIDECAR = (
    r"proxy|envoy|linkerd|istio|fluent|filebeat|promtail|vector|otel|collector|logger|log-|logs|sidecar|exporter"
    r"|metrics|monitor|vault|gcsfuse|fuse|tensorboard|sync"
)


def program(container: Container, identify: Identify) -> Program:
    """Return what a container starts."""
    return identify(container.argv)


def holds_devices(container: Container, pod: PodSpec) -> bool:
    """Whether a container asks for a device: as a resource, or by a claim of its pod."""
    return devices.seen(container.resources, pod.resource_claims, {}).kind != "none"


def is_aside(container: Container, identify: Identify) -> bool:
    """Whether a container does no part of the work, by what it starts or, where that is not read, by its name."""
    kind = program(container, identify).kind
    return kind in (Kind.CLUSTER, Kind.IDLE) or (
        kind in (Kind.UNKNOWN, Kind.PYTHON) and bool(re.search(_SIDECAR, container.name))
    )


def choose(
    pod: PodSpec,
    identify: Identify,
    *,
    serves: bool | None = None,
    asked: frozenset[str] = frozenset(),
) -> int | None:
    """Return the index of the container that does the work of a pod; None where it has no container.

    A container that holds devices comes before one without, unless it is a sidecar beside one that launches. Then one
    that starts a training comes before another, then `node`, as Trainer calls it. Names decide last, and the first of
    the list wins only where nothing else differs.

    Args:
        pod: the pod spec.
        identify: from a command line to what it starts.
        serves: whether the work is to serve, rather than to train; None where it may be either.
        asked: names of containers for which annotations ask for claims (`askings`), so that they hold devices.
    """
    containers = pod.containers
    if len(containers) < 2:  # nothing to choose from
        return 0 if containers else None
    launched = any(_launches(program(each, identify).kind, serves=serves) for each in containers)
    holders = [
        (each.name in asked or holds_devices(each, pod)) and not (launched and is_aside(each, identify))
        for each in containers
    ]
    return max(
        range(len(containers)),
        key=lambda index: (*_fitness(containers[index], identify, holds=holders[index], serves=serves), -index),
    )


def _launches(kind: Kind, *, serves: bool | None) -> bool:
    return (kind is Kind.SERVER and serves is not False) or (kind >= Kind.LAUNCHER and not serves)


def _fitness(container: Container, identify: Identify, *, holds: bool, serves: bool | None) -> tuple[int, ...]:
    kind, name = program(container, identify).kind, container.name
    return (
        serves is not False or kind is not Kind.SERVER,
        holds,
        _launches(kind, serves=serves),
        name == names.CONTAINER_NODE,
        0 if serves or kind < Kind.PYTHON else kind,
        1 if name in _MAIN else -1 if re.search(_SIDECAR, name) else 0,
        kind,
    )


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
