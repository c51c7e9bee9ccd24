"""How fast a tenant may ask: a bucket of tokens for each, of this Gateway; polls and heartbeats take none."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from aiohttp import web

from muster.sessions.gateway.answers import Handler
from muster.sessions.gateway.state import MANAGER
from muster.sessions.runs.quotas import Quota

__all__ = ["BUCKETS", "Buckets", "rates"]

_FREE = frozenset(
    f"/api/v1/{route}"
    for route in (
        "auth/token",
        "cancel_future",
        "client/config",
        "client/dynamic_config",
        "retrieve_future",
        "retrieve_futures",
        "session_heartbeat",
        "telemetry",
    )
)
"""What comes of accepted requests, and what keeps a session: who has asked too fast still gets his results."""


class Buckets:
    """The tokens that tenants have left; tenants are those of keys, so there are few.

    Args:
        clock: seconds, which never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, tenant: str, quota: Quota) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now, rate = self._clock(), quota.requests_per_second
        left, since = self._left.get(tenant, (float(quota.burst), now))
        left = min(float(quota.burst), left + (now - since) * rate)
        self._left[tenant] = (left - 1 if left >= 1 else left, now)
        return 0.0 if left >= 1 else (1 - left) / rate


BUCKETS: web.AppKey[Buckets] = web.AppKey("buckets", Buckets)


@web.middleware
async def rates(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 429 to a tenant who asks faster than he may; the client pauses and sends it again."""
    tenant = request.get("tenant")
    if tenant is None or request.path in _FREE or request.path.endswith("/finish"):
        return await handler(request)
    quota = request.app[MANAGER].context.config.quotas.of(tenant)
    seconds = request.app[BUCKETS].wait(tenant, quota)
    if seconds:
        told = (
            f"requests_per_second: you ask more than {quota.requests_per_second:g} times a second;"
            " send this one again later"
        )
        raise web.HTTPTooManyRequests(text=told, headers={"Retry-After": str(math.ceil(seconds))})
    return await handler(request)
