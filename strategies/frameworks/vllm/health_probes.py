"""Probes: how the kubelet asks a server for `/health`, and where it cannot.

`/health` answers 200 once the engine runs, also while it sleeps; an API key guards only `/v1` and its like, and a
root path is cut off before routes are matched (vLLM `entrypoints/launchers/cli_args.py`). A kubelet speaks HTTP
without a client certificate, to the pod's own address.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import model, paths, pods
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


def check(server: Server, place: pods.Place, field: str) -> Iterator[Finding]:
    """Warn about a probe that the server could never answer, so that the kubelet ends it or sends it no request.

    Args:
        server: the only server of the container.
        place: the container of the server.
        field: its field path.
    """
    own = place.container
    every = (("startupProbe", own.startup_probe), ("readinessProbe", own.readiness_probe))
    for name, probe in (*every, ("livenessProbe", own.liveness_probe)):
        for kind, asked in (("httpGet", probe.http_get), ("tcpSocket", probe.tcp_socket)) if probe else ():
            why = _fault(server, place, kind, asked) if asked else ""
            if why:
                message = f"{why}, so this probe never succeeds; ask for what the server answers"
                yield warning(f"{field}.{name}.{kind}", None, message, rule="vllm/probes")


def _fault(server: Server, place: pods.Place, kind: str, asked: model.ProbedPort) -> str:
    """Return why the server does not answer a probe, "" where it does or that is not known."""
    named = {each.name: each.container_port for each in place.container.ports}
    port, listens = asked.port if isinstance(asked.port, int) else named.get(asked.port), server.port
    if kind == "httpGet" and _unfit(server) is not None:
        why = "speaks gRPC" if server.grpc else "asks for client certificates"
        return f"the server {why}" if port == (listens or PORT) else ""
    if server.open or listens is None or asked.host:
        return ""
    if server.has("uds") or port != listens:
        shown = asked.port if port is None else port
        where = "to a socket" if server.has("uds") else f"on port {listens}"
        return f"the server listens {where}, and not on port {shown}" if _is_alone(place.pod) else ""
    return _refusal(server, asked) if kind == "httpGet" else ""


def _refusal(server: Server, asked: model.ProbedPort) -> str:
    """Return why the server does not answer 200 to a request on its port, "" where it does."""
    tls, scheme = server.has("ssl-certfile") or server.has("ssl-keyfile"), asked.scheme or "HTTP"
    if tls != (scheme == "HTTPS"):
        return f"the server speaks {'HTTPS' if tls else 'HTTP'}, and the scheme of the probe is {scheme}"
    keyed = server.text("api-key") or "VLLM_API_KEY" in server.env
    sent = any(each.name.lower() == "authorization" for each in asked.http_headers)
    if keyed and not sent and asked.path.startswith(_GUARDED) and not server.has("root-path"):
        return f"the server asks for its API key under {asked.path}, and not under /health"
    return ""


def _is_alone(pod: model.PodSpec) -> bool:
    """Whether no other container of the pod could listen to the port of a probe."""
    beside = [each for each in pod.init_containers if each.restart_policy == "Always"]
    return len(pod.containers) + len(beside) == 1


_GUARDED = ("/v1", "/v2", "/inference", "/cohere")
"""Paths that ask for the API key (vLLM `entrypoints/serve/middleware/authenticate.py`)."""
