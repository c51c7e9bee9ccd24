"""Bodies on their way to a Gateway: how many a tenant may send at once, how large together, and for how long.

A body is in memory from its first byte until its request is answered, and its connection cannot be closed for another.
So who sends many large ones, slowly, would take the memory and the connections of all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from aiohttp import web

from sessions.runs.quotas import Quotas

__all__ = ["ARRIVALS", "Arrivals", "arrivals", "arrived"]

_SECONDS = 120.0
_TOLD = "{name}: {most} {what} of your requests are on their way, as many as may; send this one again later"


class Arrivals:
    """What is on its way, by tenant: bodies, and the bytes of those that are not answered yet.

    Args:
        quotas: of the tenants.
    """

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self.bodies: Counter[str] = Counter()
        self.held: Counter[str] = Counter()


ARRIVALS: web.AppKey[Arrivals] = web.AppKey("arrivals", Arrivals)


@web.middleware
async def arrivals(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Let go of the bytes of a request when it is answered."""
    try:
        return await handler(request)
    finally:
        _change(request.app[ARRIVALS].held, str(request.get("tenant")), -request.get("held", 0))


async def arrived(request: web.Request, limit: int) -> bytes:
    """Return what was sent, or a little more of it than a limit.

    Raises:
        HTTPTooManyRequests: when as much of the tenant's is on its way as may be; the client pauses and sends it again.
        HTTPRequestTimeout: when it does not arrive in time.
    """
    of, tenant = request.app[ARRIVALS], str(request.get("tenant"))
    quota = of.quotas.of(tenant)
    if of.bodies[tenant] >= quota.arriving_bodies:
        raise _busy("arriving_bodies", quota.arriving_bodies, "bodies")
    _change(of.bodies, tenant, 1)
    sent = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for some in request.content.iter_any():
                _change(of.held, tenant, len(some))
                request["held"] = request.get("held", 0) + len(some)
                if of.held[tenant] > quota.arriving_bytes and len(sent) + len(some) < of.held[tenant]:
                    raise _busy("arriving_bytes", quota.arriving_bytes, "bytes")
                sent += some
                if len(sent) > limit:
                    break
    except TimeoutError as error:
        told = f"the body did not arrive within {_SECONDS:.0f} seconds; send it again, or less at once"
        raise web.HTTPRequestTimeout(text=told) from error
    finally:
        _change(of.bodies, tenant, -1)
    return bytes(sent)


def _busy(name: str, most: int, what: str) -> web.HTTPTooManyRequests:
    return web.HTTPTooManyRequests(text=_TOLD.format(name=name, most=most, what=what), headers={"Retry-After": "1"})


def _change(counter: Counter[str], tenant: str, by: int) -> None:
    """Change a number; what is 0 is forgotten."""
    if by:
        counter[tenant] += by
        if not counter[tenant]:
            del counter[tenant]
