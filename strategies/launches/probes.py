"""Probes: the kubelet ends a container whose probe fails, and at the port of a meeting the first node alone listens.

torchrun of node 0 serves the store there (torch `elastic/rendezvous/static_tcp_rendezvous.py`,
`c10d_rendezvous_backend.py`); the others connect to it, so that a liveness or startup probe of that port kills them.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.strategies.documents.model import Container
from muster.strategies.documents.quantities import whole

__all__ = ["of_the_meeting"]


def of_the_meeting(container: Container, port: int) -> Iterator[tuple[str, str]]:
    """Yield the member and the kind of each probe of a container that asks a port, and ends the container without it.

    Args:
        container: of the training.
        port: at which the nodes meet.
    """
    for member, probe in (("livenessProbe", container.liveness_probe), ("startupProbe", container.startup_probe)):
        asking = (("tcpSocket", probe.tcp_socket), ("httpGet", probe.http_get)) if probe else ()
        for kind, asked in asking:
            if asked is not None and not asked.host and _number(asked.port, container) == port:
                yield member, kind


def _number(port: int | str, container: Container) -> int | None:
    """Return the number of a port, which a probe may name (kubelet `prober.go` ResolveContainerPort)."""
    if isinstance(port, int):
        return port
    named = next((each.container_port for each in container.ports if each.name == port), None)
    return named or whole(port)
