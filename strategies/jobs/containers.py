"""Containers: the one of a pod that does the pod's work, beside sidecars that may stand before it in the list."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from strategies.documents import names
from strategies.documents.pods import Container
from strategies.jobs.programs import Identify, Kind, Program
from strategies.platform import devices

__all__ = ["choose", "holds_devices", "program"]

_MAIN = frozenset({"trainer", "pytorch", "training", "train", "main", "worker", "leader", "master", "server", "vllm"})
_SIDECAR = re.compile(
    r"proxy|envoy|linkerd|istio|fluent|filebeat|promtail|vector|otel|collector|logger|log-|logs|sidecar|exporter"
    r"|metrics|monitor|vault|gcsfuse|fuse|tensorboard|sync"
)


def program(container: Container, identify: Identify) -> Program:
    """Return what a container starts."""
    return identify([*(container.get("command") or ()), *(container.get("args") or ())])


def holds_devices(container: Container, pod_spec: Mapping[str, Any]) -> bool:
    """Whether a container asks for a device: as a resource, or by a claim of its pod."""
    return devices.seen(container.get("resources") or {}, pod_spec.get("resourceClaims") or (), {}).kind != "none"


def choose(pod_spec: Mapping[str, Any], identify: Identify, *, serves: bool | None = None) -> int | None:
    """Return the index of the container that does the work of a pod; None where it has no container.

    A container that holds devices comes before one without, then one that starts a training before another, then
    `node`, as Trainer calls it. Names decide last, and the first of the list wins only where nothing else differs.

    Args:
        pod_spec: the pod spec.
        identify: from a command line to what it starts.
        serves: whether the work is to serve, rather than to train; None where it may be either.
    """
    containers: Sequence[Container] = pod_spec.get("containers") or ()
    if len(containers) < 2:  # nothing to choose from
        return 0 if containers else None
    return max(
        range(len(containers)),
        key=lambda index: (*_fitness(containers[index], pod_spec, identify, serves=serves), -index),
    )


def _fitness(
    container: Container, pod_spec: Mapping[str, Any], identify: Identify, *, serves: bool | None
) -> tuple[int, ...]:
    kind, name = program(container, identify).kind, str(container.get("name", ""))
    answers, trains = kind is Kind.SERVER and serves is not False, kind >= Kind.LAUNCHER and not serves
    return (
        serves is not False or kind is not Kind.SERVER,
        holds_devices(container, pod_spec),
        answers or trains,
        name == names.CONTAINER_NODE,
        0 if serves or kind < Kind.PYTHON else kind,
        1 if name in _MAIN else -1 if _SIDECAR.search(name) else 0,
        kind,
    )
