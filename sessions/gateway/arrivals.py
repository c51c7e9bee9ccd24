"""Bodies on their way to a Gateway: how many a tenant may send at once, how large together, and for how long.

A body is in memory from its first byte until its request is answered, and its connection cannot be closed for another.
So who sends many large ones, slowly, would take the memory and the connections of all. What a body has when it is
unpacked counts as well. Where all tenants together have too much in memory, who has the most gives way.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from muster.front.request_bodies import pieces
from muster.sessions.runs.quotas import Quotas

__all__ = ["ARRIVALS", "Arrivals", "arrivals", "arrived", "hold"]

_SECONDS = 120.0
_LARGE = 1 << 20
_TORN = (OSError, HttpProcessingError, web.RequestPayloadError)
"""What reading a body raises when its connection is closed, or its chunks are none."""
_TOLD = "{name}: {most} {what} of your requests are on their way, as many as may; send this one again later"


class Arrivals:
    """What is on its way, by tenant: bodies, and the bytes of those that are not answered yet.

    Args:
        quotas: of the tenants.
        most: bytes of all tenants.
    """

    def __init__(self, quotas: Quotas, most: int) -> None:
        self.quotas, self.most = quotas, most
        self.bodies: Counter[str] = Counter()
        self.held: Counter[str] = Counter()
        self.all = 0

    def change(self, tenant: str, by: int) -> None:
        """Change the bytes of a tenant."""
        self.all += by
        _change(self.held, tenant, by)

    def has_most(self, tenant: str) -> bool:
        """Tell whether all have too much, and a tenant has more of it than others may as well."""
        return self.all > self.most and self.held[tenant] * len(self.held) > self.most


ARRIVALS: web.AppKey[Arrivals] = web.AppKey("arrivals", Arrivals)


@web.middleware
async def arrivals(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Let go of the bytes of a request when it is answered."""
    try:
        return await handler(request)
    finally:
        request.app[ARRIVALS].change(str(request.get("tenant")), -request.get("held", 0))


async def arrived(request: web.Request, limit: int) -> bytes:
    """Return what was sent, or a little more of it than a limit.

    Raises:
        HTTPTooManyRequests: when as much of the tenant's is on its way as may be; the client pauses and sends it again.
        HTTPServiceUnavailable: when that is so of all together.
        HTTPRequestTimeout: when it does not arrive in time.
        HTTPBadRequest: when its connection ends before it does, or it is not in the form that its header says.
    """
    of, tenant = request.app[ARRIVALS], str(request.get("tenant"))
    quota = of.quotas.of(tenant)
    if of.bodies[tenant] >= quota.arriving_bodies:
        raise _busy("arriving_bodies", quota.arriving_bodies, "bodies")
    _change(of.bodies, tenant, 1)
    sent: list[bytes] = []
    try:
        async with asyncio.timeout(_SECONDS):
            async for some in pieces(request):
                hold(request, len(some))
                sent.append(some)
                if request["held"] > limit:
                    break
    except TimeoutError as error:
        told = f"the body did not arrive within {_SECONDS:.0f} seconds; send it again, or less at once"
        raise web.HTTPRequestTimeout(text=told) from error
    except _TORN as error:
        raise web.HTTPBadRequest(text="the body did not arrive as its header says; send it again") from error
    finally:
        _change(of.bodies, tenant, -1)
    # Large ones are joined without the interpreter's lock.
    large = request.get("held", 0) > _LARGE
    return await asyncio.to_thread(b"".join, sent) if large else b"".join(sent)


def hold(request: web.Request, size: int) -> None:
    """Count bytes that a request has in memory until it is answered. Raises as `arrived` does."""
    of, tenant = request.app[ARRIVALS], str(request.get("tenant"))
    of.change(tenant, size)
    request["held"] = request.get("held", 0) + size
    most = of.quotas.of(tenant).arriving_bytes
    if of.held[tenant] > most and request["held"] < of.held[tenant]:
        raise _busy("arriving_bytes", most, "bytes")
    if of.has_most(tenant):
        told = "too many bytes of requests are in memory at the moment; send this one again later"
        raise web.HTTPServiceUnavailable(text=told, headers={"Retry-After": "1"})


def _busy(name: str, most: int, what: str) -> web.HTTPTooManyRequests:
    return web.HTTPTooManyRequests(text=_TOLD.format(name=name, most=most, what=what), headers={"Retry-After": "1"})


def _change(counter: Counter[str], tenant: str, by: int) -> None:
    """Change a number; what is 0 is forgotten."""
    if by:
        counter[tenant] += by
        if not counter[tenant]:
            del counter[tenant]
