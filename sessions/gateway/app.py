"""The Gateway as an application of aiohttp."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

from aiohttp import web

from muster.sessions.gateway import (
    accounts,
    copies,
    cursors,
    custom_losses,
    downloads,
    futures,
    identity,
    records,
    sampling,
    searches,
    service,
    training,
)
from muster.sessions.gateway.answers import READERS, errors
from muster.sessions.gateway.arrivals import ARRIVALS, Arrivals, arrivals
from muster.sessions.gateway.connections import counted
from muster.sessions.gateway.doors import door
from muster.sessions.gateway.polls import POLLS, Polls
from muster.sessions.gateway.rates import BUCKETS, REFUSALS, Buckets, Refusals, held, rates
from muster.sessions.gateway.state import MANAGER, TOKENS
from muster.sessions.gateway.tokens import Tokens
from muster.sessions.runs.config import Config
from muster.sessions.runs.manager import Manager

__all__ = ["app"]

_PATIENCE = 5.0  # seconds in which the last records are written
_PARTS = (
    accounts,
    copies,
    cursors,
    custom_losses,
    downloads,
    futures,
    identity,
    records,
    sampling,
    searches,
    service,
    training,
)


def app(config: Config) -> web.Application:
    """Return the application; it starts the engines when it starts, and answers before they do."""
    made = web.Application(
        middlewares=[counted, held, errors, door, rates, arrivals], client_max_size=config.limits.body
    )
    made[MANAGER] = Manager(config)
    made[READERS] = made[MANAGER].context.readers
    made[BUCKETS], made[REFUSALS], made[POLLS] = Buckets(), Refusals(), Polls()
    made[downloads.TRACES] = defaultdict(asyncio.Lock)
    made[ARRIVALS] = Arrivals(config.quotas, config.limits.bodies)
    made[TOKENS] = Tokens(config.root / "signing.key")
    for part in _PARTS:
        made.add_routes(part.routes)
    made.cleanup_ctx.extend((_audited, _running))
    return made


async def _audited(made: web.Application) -> AsyncIterator[None]:
    """Have events written, until everything that notes them has ended."""
    context = made[MANAGER].context
    if context.config.audit is None:
        yield
        return
    from muster.sessions.runs import audits  # noqa: PLC0415  # who has no audit log needs nothing of the webhook's

    log = audits.writer(context.config.audit)
    context.journal.heard = lambda *event: log.submit(audits.record(*event))
    yield
    await asyncio.to_thread(log.close, _PATIENCE)


async def _running(made: web.Application) -> AsyncIterator[None]:
    await made[MANAGER].start()
    yield
    await made[MANAGER].close()
