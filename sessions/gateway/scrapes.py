"""Metrics at an address of their own, which needs no key: nothing in them names a tenant, a session or a token."""

from __future__ import annotations

from aiohttp import web

from muster.sessions.gateway.connections import counted
from muster.sessions.journal.store import AwayError
from muster.sessions.metrics import CONTENT_TYPE
from muster.sessions.runs.manager import Manager

__all__ = ["app"]

_WAITING = "SELECT kind, count(*) AS some FROM requests WHERE state = 'waiting' GROUP BY kind"
_OPEN = "SELECT count(*) AS some FROM sessions WHERE ended IS NULL"


def app(manager: Manager) -> web.Application:
    """Return an application that answers `/metrics`; the manager is started and closed elsewhere."""

    async def metrics(_: web.Request) -> web.Response:
        try:
            await _look(manager)
        except AwayError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error
        return web.Response(body=manager.context.metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    made = web.Application(middlewares=[counted], client_max_size=1024)
    made.router.add_get("/metrics", metrics)
    return made


async def _look(manager: Manager) -> None:
    context = manager.context
    waiting = {row["kind"]: row["some"] for row in await context.journal.rows(_WAITING)}
    open_ = await context.journal.row(_OPEN)
    engines = (context.trainer, context.sampler)
    up = {each.name: each.is_up for each in engines}
    absences = {each.name: each.absence for each in engines}
    context.metrics.looked(waiting, up, absences, open_["some"] if open_ else 0)
