"""Sessions and what a client asks about the service."""

from __future__ import annotations

import json as texts
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from muster.sessions.gateway import bodies
from muster.sessions.gateway.answers import DAMAGED, body, json, members
from muster.sessions.gateway.state import MANAGER, caller, new_id, own_session
from muster.sessions.journal.store import Connection
from muster.sessions.runs import events, quotas
from muster.sessions.seam import Refused

__all__ = ["routes"]

routes = web.RouteTableDef()
_ABOUT = 1 << 16
_INSERT = "INSERT INTO sessions (id, tenant, created, seen, status, about) VALUES (?, ?, ?, ?, ?, ?)"
_CONFIG = {
    "pjwt_auth_enabled": True,
    "credential_default_source": "api_key",
    "proto_compress_fwdbwd": True,
    "sample_join_sampling_session": True,
}


@routes.get("/api/v1/healthz")
async def healthz(request: web.Request) -> web.Response:
    """Say that the Gateway answers, and has a journal that is whole as far as it knows."""
    if request.app[MANAGER].context.journal.damage:
        return json({"status": "failed", "detail": DAMAGED}, 503)
    return json({"status": "ok"})


@routes.post("/api/v1/client/config")
async def client_config(_: web.Request) -> web.Response:
    """Answer the flags of `tinker.types.ClientConfigResponse`; those left out have their defaults."""
    return json(_CONFIG)


@routes.post("/api/v1/client/dynamic_config")
async def client_dynamic_config(_: web.Request) -> web.Response:
    """Answer that nothing changes, and that an abandoned sample may be cancelled."""
    return json({"refresh_interval_sec": 300, "sample_cancel_enabled": True})


@routes.post("/api/v1/telemetry")
async def telemetry(_: web.Request) -> web.Response:
    """Accept what the client tells about itself, and drop it: nothing leaves this machine."""
    return json({"status": "accepted"})


@routes.get("/api/v1/get_server_capabilities")
async def capabilities(request: web.Request) -> web.Response:
    """Answer the one base model."""
    config = request.app[MANAGER].context.config
    model = {"model_name": config.name, "max_context_length": config.context, "trainable": True, "sampleable": True}
    return json({"supported_models": [model]})


@routes.post("/api/v1/create_session")
async def create_session(request: web.Request) -> web.Response:
    """Begin a session."""
    asked = await body(request, bodies.CreateSession)
    context = request.app[MANAGER].context
    now, id_ = context.clock(), new_id()
    about = asked.model_dump(exclude={"type"})
    if len(texts.dumps(about)) > _ABOUT:
        raise Refused(f"user_metadata: is more than {_ABOUT} bytes with the tags; keep large things elsewhere")
    tenant = caller(request)
    values = (id_, tenant, now, now, '{"type": "active"}', texts.dumps(about))
    kept = await context.journal.run(_kept, context.config.quotas.of(tenant), values, asked.project_id)
    events.tell(context.journal, kept)
    return json({"type": "create_session", "session_id": id_})


def _kept(connection: Connection, quota: quotas.Quota, values: Sequence[Any], project: str | None) -> events.Event:
    id_, tenant, now, *_ = values
    quotas.session(connection, tenant, quota)
    connection.execute(_INSERT, values)
    return events.keep(connection, tenant, "session_created", now, session_id=id_, project_id=project)


@routes.post("/api/v1/session_heartbeat")
async def heartbeat(request: web.Request) -> web.Response:
    """Keep a session; 410 tells the client that it has ended."""
    session = await own_session(request, str((await members(request)).get("session_id")))
    if session["ended"] is not None:
        return json({"detail": f"{session['id']}: this session has ended"}, 410)
    context = request.app[MANAGER].context
    await context.journal.execute("UPDATE sessions SET seen = ? WHERE id = ?", context.clock(), session["id"])
    return json({"type": "session_heartbeat"})


@routes.post("/api/v1/sessions/{id}/finish")
async def finish(request: web.Request) -> web.Response:
    """End a session, as its client says; again, nothing more happens. A key that cannot train ends no training."""
    asked = await body(request, bodies.Finish)
    session = await own_session(request, request.match_info["id"])
    if "train" not in request["scopes"] and await _trains(request, session["id"]):
        told = f"the API key {request['key']} has no scope train, and models of this session are loaded"
        raise web.HTTPForbidden(text=f"{told}; ask for a key that has it, or let the session end by itself")
    status = {"type": "client_finished", "reason": {"type": asked.reason.type}, "detail": asked.detail}
    await request.app[MANAGER].end(session["id"], status)
    return web.Response(status=204)


async def _trains(request: web.Request, session: str) -> bool:
    query = "SELECT 1 FROM models WHERE session = ? AND unloaded IS NULL"
    return await request.app[MANAGER].context.journal.row(query, session) is not None
