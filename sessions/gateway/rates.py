"""How fast a tenant may ask: a bucket of tokens for each, of this Gateway; polls and heartbeats take none."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable

from aiohttp import web

from muster.sessions.gateway.answers import Handler
from muster.sessions.gateway.state import MANAGER
from muster.sessions.runs.quotas import Quota

__all__ = ["BUCKETS", "REFUSALS", "Buckets", "Refusals", "held", "rates"]

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


_AT_ONCE = 50  # refusals of a tenant in a second that are answered at once
_LONGEST = 5.0  # seconds that a refusal is held
_MOST = 4096  # refusals of a tenant that are held at once: each holds a connection


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


class Refusals:
    """How long answers of 429 are held, so that asking again at once, for ever, costs others little.

    Args:
        clock: seconds, which never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        self.held: Counter[str] = Counter()

    def wait(self, tenant: str) -> float:
        """Return the seconds until a refusal is answered: none for the first ones, more for more of them."""
        now = self._clock()
        until = max(self._until.get(tenant, 0.0), now - 1) + 1 / _AT_ONCE
        self._until[tenant] = min(until, now + _LONGEST)
        return max(0.0, self._until[tenant] - now) if self.held[tenant] < _MOST else 0.0


REFUSALS: web.AppKey[Refusals] = web.AppKey("refusals", Refusals)


@web.middleware
async def held(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Hold answers of 429 to a tenant who gets many of them."""
    answer = await handler(request)
    tenant, of = str(request.get("tenant")), request.app[REFUSALS]
    if answer.status == web.HTTPTooManyRequests.status_code and (seconds := of.wait(tenant)):
        of.held[tenant] += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            of.held[tenant] -= 1
    return answer


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
