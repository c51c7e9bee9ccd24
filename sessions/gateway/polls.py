"""How many polls a tenant may have waiting at once: each holds a connection, of which a Gateway has only so many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from muster.sessions.gateway.state import MANAGER, caller

__all__ = ["POLLS", "Polls", "waiting"]

Polls = Counter[str]
POLLS: web.AppKey[Polls] = web.AppKey("polls", Counter)
"""Polls of each tenant that wait at the moment."""


@contextmanager
def waiting(request: web.Request) -> Iterator[None]:
    """Count a poll as long as it waits.

    Raises:
        HTTPTooManyRequests: when as many of the tenant's wait as may; the client pauses and asks again.
    """
    tenant, polls = caller(request), request.app[POLLS]
    most = request.app[MANAGER].context.config.quotas.of(tenant).polls
    if polls[tenant] >= most:
        told = f"polls: {most} of your polls wait, as many as may; ask again later"
        raise web.HTTPTooManyRequests(text=told, headers={"Retry-After": "1"})
    polls[tenant] += 1
    try:
        yield
    finally:
        polls[tenant] -= 1
        if not polls[tenant]:
            del polls[tenant]
