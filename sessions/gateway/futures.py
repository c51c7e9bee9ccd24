"""Promises: polled until they are kept, and never longer than the client waits."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web

from muster.sessions.gateway import bodies, polls
from muster.sessions.gateway.answers import body, json, members
from muster.sessions.gateway.state import MANAGER, caller
from muster.sessions.journal.store import Row
from muster.sessions.runs import completions
from muster.sessions.runs.manager import Manager

__all__ = ["routes"]

routes = web.RouteTableDef()
_FIND = "SELECT kind, state, result, form, category FROM requests WHERE id = ? AND tenant = ?"


@routes.post("/api/v1/retrieve_future")
async def retrieve_future(request: web.Request) -> web.Response:
    """Answer a result, a failure, or that it is not there yet, and why."""
    id_ = (await body(request, bodies.Poll)).request_id
    context = request.app[MANAGER].context
    event = context.futures.watch(id_)
    try:
        row = await context.journal.row(_FIND, id_, caller(request))
        if row is not None and row["state"] == "waiting":
            with polls.waiting(request), suppress(TimeoutError):
                async with asyncio.timeout(context.config.limits.poll):
                    await event.wait()
            row = await context.journal.row(_FIND, id_, caller(request))
    finally:
        context.futures.leave(id_, event)
    return _answer(request.app[MANAGER], id_, row)


def _answer(manager: Manager, id_: str, row: Row | None) -> web.Response:
    if row is None:
        return json({"detail": f"{id_[:200]}: there is no such request, or its result is not kept any more"}, 410)
    if row["state"] == "done":
        form = "application/x-protobuf" if row["form"] == "protobuf" else "application/json"
        return web.Response(body=row["result"], content_type=form)
    if row["state"] == "failed":
        return json({"error": row["result"].decode(), "category": row["category"]})
    answer = {"type": "try_again", "request_id": id_, "queue_state": "active"}
    if why := manager.waits_for(row["kind"]):
        answer |= {"queue_state": "paused_capacity", "queue_state_reason": why}
    return json(answer)


@routes.post("/api/v1/cancel_future")
async def cancel_future(request: web.Request) -> web.Response:
    """Stop a sample that nobody waits for; nothing happens to other requests."""
    id_ = str((await members(request)).get("request_id"))
    manager = request.app[MANAGER]
    row = await manager.context.journal.row(_FIND, id_, caller(request))
    if row is not None and row["kind"] == "sample":
        manager.samples.cancel(id_)
        told = "the client cancelled this request"
        await manager.context.journal.run(completions.failed, id_, told, "user", manager.context.clock())
        manager.context.futures.ended(id_)
    return web.Response(status=204)
