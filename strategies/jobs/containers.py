"""Containers: the one of a pod that does the pod's work, beside sidecars that may stand before it in the list."""

from __future__ import annotations

import re

from muster.strategies.documents import names
from muster.strategies.documents.model import Container, PodSpec
from muster.strategies.jobs.programs import Identify, Kind, Program
from muster.strategies.platform import devices

__all__ = ["choose", "holds_devices", "is_aside", "program"]

_MAIN = frozenset({"trainer", "pytorch", "training", "train", "main", "worker", "leader", "master", "server", "vllm"})
_SIDECAR = re.compile(
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
        kind in (Kind.UNKNOWN, Kind.PYTHON) and bool(_SIDECAR.search(container.name))
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
        1 if name in _MAIN else -1 if _SIDECAR.search(name) else 0,
        kind,
    )
