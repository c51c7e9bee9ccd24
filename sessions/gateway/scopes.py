"""Which scope of a key a request needs: a key has some of `train`, `sample`, `read` and `admin`."""

from __future__ import annotations

__all__ = ["needed"]

_V1 = "/api/v1/"
_EVERY = frozenset(
    {
        "client/config",
        "client/dynamic_config",
        "telemetry",
        "get_server_capabilities",
        "create_session",
        "session_heartbeat",
        "retrieve_future",
        "retrieve_futures",
        "auth/token",
    }
)
"""What each loop needs, whatever it does; futures and sessions are those of the key's tenant."""
_SAMPLE = frozenset({"create_sampling_session", "join_sampling_session", "asample", "cancel_future"})
_LOOK = frozenset({"get_info", "weights_info", "sessions/search"})


def needed(method: str, path: str) -> frozenset[str]:
    """Return scopes of which a key must have one; none where each key will do. A route that is not named needs `train`.

    Args:
        method: such as `GET`.
        path: without percent-encoding.
    """
    route = path.removeprefix(_V1)
    if route in _EVERY or (route.startswith("sessions/") and route.endswith("/finish")):
        return frozenset()
    if route.startswith(("audit", "billing/")):
        return frozenset({"admin"})
    if route in _SAMPLE:
        return frozenset({"sample"})
    if route.startswith("samplers/"):
        return frozenset({"sample", "read"})
    if route in _LOOK:
        return frozenset({"read", "train", "sample"})
    return frozenset({"read"} if method in {"GET", "HEAD"} else {"train"})
