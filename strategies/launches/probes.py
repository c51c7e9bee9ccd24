"""Probes: the kubelet ends a container whose probe fails, and at the port of a meeting the first node alone listens.

torchrun of node 0 serves the store there (torch `elastic/rendezvous/static_tcp_rendezvous.py`,
`c10d_rendezvous_backend.py`); the others connect to it, so that a liveness or startup probe of that port kills them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents import pods
from muster.strategies.documents.quantities import whole

__all__ = ["ENDING", "of_the_meeting"]

ENDING = frozenset({"livenessProbe", "startupProbe"})
_ASKING = ("tcpSocket", "httpGet")


def of_the_meeting(container: pods.Container, port: int) -> Iterator[tuple[str, str]]:
    """Yield the member and the kind of each probe of a container that asks a port, and ends the container without it.

    Args:
        container: of the training.
        port: at which the nodes meet.
    """
    held: Mapping[str, Any] = container
    for member in sorted(ENDING):
        probe = held.get(member)
        for kind in _ASKING if probe else ():
            asked = probe.get(kind) if isinstance(probe, dict) else None
            if isinstance(asked, dict) and not asked.get("host") and _number(asked.get("port"), held) == port:
                yield member, kind


def _number(port: Any, container: Mapping[str, Any]) -> int | None:
    """Return the number of a port, which a probe may name (kubelet `prober.go` ResolveContainerPort)."""
    if isinstance(port, int):
        return port
    ports = container.get("ports")
    listed = [each for each in ports if isinstance(each, dict)] if isinstance(ports, list) else []
    named = (each.get("containerPort") for each in listed if each.get("name") == port)
    return next(named, whole(port) if isinstance(port, str) else None)
