"""Probes: how the kubelet asks a server for `/health`, and where it cannot.

`/health` answers 200 once the engine runs, also while it sleeps; an API key guards only `/v1` and its like, and a
root path is cut off before routes are matched (vLLM 0.31 `entrypoints/launchers/cli_args.py`). A kubelet speaks HTTP
without a client certificate, to the pod's own address.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from strategies.documents import pods
from strategies.documents.findings import Finding, warning
from strategies.frameworks.vllm.servers import Server

__all__ = ["NAMES", "PORT", "check", "make", "port", "unfit"]

PORT = 8000
"""Where `vllm serve` listens without `--port`."""

_TIMES: dict[str, dict[str, int]] = {
    "startupProbe": {"periodSeconds": 10, "failureThreshold": 180},  # loading weights takes minutes
    "readinessProbe": {"periodSeconds": 5, "failureThreshold": 3},
    "livenessProbe": {"periodSeconds": 15, "failureThreshold": 4},
}
NAMES = tuple(_TIMES)
"""The probes that Muster adds."""

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def port(server: Server) -> int | None:
    """Return the port on which the kubelet can ask for `/health`, None where it cannot or the port is not known."""
    unseen = server.parsed.config is not None or server.spread or server.has("uds") or unfit(server) is not None
    if unseen or server.text("host") in _LOOPBACK:
        return None
    return _listens(server)


def unfit(server: Server) -> str | None:
    """Return why the server answers no HTTP request of a kubelet, None where it does."""
    if server.grpc:
        return "the server speaks gRPC, so Muster adds no probe over HTTP; write one of kind grpc"
    if server.number("ssl-cert-reqs") == ssl.CERT_REQUIRED and server.on("ssl-cert-reqs"):
        return "the server asks for client certificates, which a kubelet has not, so Muster adds no probe over HTTP"
    return None


def make(name: str, server: Server) -> dict[str, Any]:
    """Return the probe called `name`."""
    tls = server.has("ssl-certfile") or server.has("ssl-keyfile")
    get = {"path": "/health", "port": port(server), **({"scheme": "HTTPS"} if tls else {})}
    return {"httpGet": get, "timeoutSeconds": 5, **_TIMES[name]}


def check(server: Server, container: pods.Container, place: str) -> Iterator[Finding]:
    """Warn about a probe over HTTP that the server could never answer."""
    why = "speaks gRPC" if server.grpc else "asks for client certificates"
    if unfit(server) is None:
        return
    for name in NAMES:
        get = ((_mapping(container.get(name))).get("httpGet")) if container.get(name) else None
        if _mapping(get).get("port") == (_listens(server) or PORT):
            message = f"the server {why}, so this probe over HTTP never succeeds; use a grpc or tcpSocket probe"
            yield warning(f"{place}.{name}.httpGet", None, message, rule="vllm/probes")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _listens(server: Server) -> int | None:
    text: str | None = server.text("port") or str(PORT)
    if text and text.startswith("$(") and text.endswith(")"):
        text = server.env.get(text[2:-1])
    return int(text) or None if text and text.isdecimal() and len(text) <= len("65535") else None
