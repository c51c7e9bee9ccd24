"""Probes of a vLLM server: `/health` answers 200 once the engine lives, also while it sleeps.

Loading weights takes minutes, so a startup probe of up to 30 minutes stands before the other two.
"""

from __future__ import annotations

from typing import Any

__all__ = ["PROBES", "probe"]

PROBES = {
    "startupProbe": {"periodSeconds": 10, "failureThreshold": 180},
    "readinessProbe": {"periodSeconds": 5, "failureThreshold": 3},
    "livenessProbe": {"periodSeconds": 15, "failureThreshold": 4},
}


def probe(name: str, port: int, *, tls: bool) -> dict[str, Any]:
    """Return the probe called `name` on `port`."""
    get = {"path": "/health", "port": port, **({"scheme": "HTTPS"} if tls else {})}
    return {"httpGet": get, "timeoutSeconds": 5, **PROBES[name]}
