"""Probes: how the kubelet asks a server for `/health`, and where it cannot.

`/health` answers 200 once the engine runs, also while it sleeps; an API key guards only `/v1` and its like, and a
root path is cut off before routes are matched (vLLM `entrypoints/launchers/cli_args.py`). A kubelet speaks HTTP
without a client certificate, to the pod's own address.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import loose, paths, pods
from muster.strategies.documents.findings import Finding, note, warning
from muster.strategies.documents.paths import Absent, Path
from muster.strategies.frameworks.vllm.vllm_servers import PORT, Server

__all__ = ["add", "check", "port"]

_TIMES: dict[str, dict[str, int]] = {
    "startupProbe": {"periodSeconds": 10, "failureThreshold": 180},  # loading weights takes minutes
    "readinessProbe": {"periodSeconds": 5, "failureThreshold": 3},
    "livenessProbe": {"periodSeconds": 15, "failureThreshold": 4},
}
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def port(server: Server) -> int | None:
    """Return the port on which the kubelet can ask for `/health`, None where it cannot or the port is not known."""
    unseen = server.parsed.config is not None or server.spread or server.has("uds") or _unfit(server) is not None
    if unseen or server.text("host") in _LOOPBACK:
        return None
    return server.port


def _unfit(server: Server) -> str | None:
    """Return why the server answers no HTTP request of a kubelet, None where it does."""
    if server.grpc:
        return "the server speaks gRPC, so Muster adds no probe over HTTP; write one of kind grpc"
    if server.number("ssl-cert-reqs") == ssl.CERT_REQUIRED and server.on("ssl-cert-reqs"):
        return "the server asks for client certificates, which a kubelet has not, so Muster adds no probe over HTTP"
    return None


def add(changes: Changes, path: Path, server: Server, *, rule: str, ready: str) -> None:
    """Add the probes that a container lacks, or say why none is added.

    Args:
        changes: where they are recorded.
        path: of the container.
        server: the server that the container starts.
        rule: id of the rule.
        ready: what the server is ready for, in the reason: `the server is ready for traffic`.
    """
    missing, number = [name for name in _TIMES if isinstance(changes.get(*path, name), Absent)], port(server)
    tls = server.has("ssl-certfile") or server.has("ssl-keyfile")
    get = {"path": "/health", "port": number, **({"scheme": "HTTPS"} if tls else {})}
    for name in missing if number is not None else ():
        probe = {"httpGet": dict(get), "timeoutSeconds": 5, **_TIMES[name]}
        reason = f"/health on port {number} tells when {ready} and when it is stuck"
        changes.set((*path, name), probe, rule=rule, reason=reason)
    if missing and (why := _unfit(server)):
        changes.report(note(paths.field(changes.document, path), None, why, rule=rule))


def check(server: Server, pod: Mapping[str, Any], container: pods.Container, place: str) -> Iterator[Finding]:
    """Warn about a probe that the server could never answer, so that the kubelet ends it or sends it no request.

    Args:
        server: the only server of the container.
        pod: the pod spec, whose other containers may listen to other ports.
        container: the container of the server.
        place: its field path.
    """
    for name in _TIMES:
        probe = loose.mapping(container.get(name))
        for kind in ("httpGet", "tcpSocket"):
            asked = loose.mapping(probe.get(kind))
            why = _fault(server, pod, container, kind, asked) if asked else ""
            if why:
                message = f"{why}, so this probe never succeeds; ask for what the server answers"
                yield warning(f"{place}.{name}.{kind}", None, message, rule="vllm/probes")


def _fault(
    server: Server, pod: Mapping[str, Any], container: pods.Container, kind: str, asked: Mapping[str, Any]
) -> str:
    """Return why the server does not answer a probe, "" where it does or that is not known."""
    port, listens = _asked_port(container, asked.get("port")), server.port
    if kind == "httpGet" and _unfit(server) is not None:
        why = "speaks gRPC" if server.grpc else "asks for client certificates"
        return f"the server {why}" if port == (listens or PORT) else ""
    if server.open or listens is None or asked.get("host"):
        return ""
    if server.has("uds") or port != listens:
        shown = asked.get("port") if port is None else port
        where = "to a socket" if server.has("uds") else f"on port {listens}"
        return f"the server listens {where}, and not on port {shown}" if _is_alone(pod) else ""
    return _refusal(server, asked) if kind == "httpGet" else ""


def _refusal(server: Server, asked: Mapping[str, Any]) -> str:
    """Return why the server does not answer 200 to a request on its port, "" where it does."""
    tls, scheme = server.has("ssl-certfile") or server.has("ssl-keyfile"), str(asked.get("scheme") or "HTTP")
    if tls != (scheme == "HTTPS"):
        return f"the server speaks {'HTTPS' if tls else 'HTTP'}, and the scheme of the probe is {scheme}"
    headers = {str(loose.mapping(each).get("name")).lower() for each in loose.sequence(asked.get("httpHeaders"))}
    guarded = str(asked.get("path") or "").startswith(_GUARDED) and not server.has("root-path")
    if guarded and (server.text("api-key") or "VLLM_API_KEY" in server.env) and "authorization" not in headers:
        return f"the server asks for its API key under {asked['path']}, and not under /health"
    return ""


def _asked_port(container: pods.Container, port: object) -> int | None:
    """Return the number of a probe's port, which may be the name of one of the container's; None for no such name."""
    if isinstance(port, int):
        return port
    held: Mapping[str, Any] = container  # its ports are not a member that Muster reads elsewhere
    named = next((each for each in loose.sequence(held.get("ports")) if loose.mapping(each).get("name") == port), None)
    number = loose.mapping(named).get("containerPort")
    return number if isinstance(number, int) else None


def _is_alone(pod: Mapping[str, Any]) -> bool:
    """Whether no other container of the pod could listen to the port of a probe."""
    beside = [each for each in pod.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    return len(pod.get("containers") or ()) + len(beside) == 1


_GUARDED = ("/v1", "/v2", "/inference", "/cohere")
"""Paths that ask for the API key (vLLM `entrypoints/serve/middleware/authenticate.py`)."""
