"""Links that need no key: each is signed, is good for one file, and ends after some minutes or with its API key."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

from aiohttp import web

from muster.sessions.gateway.answers import MissingError, json
from muster.sessions.gateway.state import MANAGER, TOKENS, caller, own_session
from muster.sessions.gateway.traces import trace
from muster.sessions.runs import endings, events, external, paths
from muster.sessions.runs.models import Context
from muster.sessions.seam import Refused

__all__ = ["TRACES", "routes"]

routes = web.RouteTableDef()
_URLS = "/api/v1/training_runs/{run}/checkpoints/{kind}/{name}/external_weights_urls"
TRACES: web.AppKey[defaultdict[str, asyncio.Lock]] = web.AppKey("traces", defaultdict)
"""Held while a trace of a tenant is made and sent: it has up to 16 MB."""


@routes.get(_URLS)
async def external_weights_urls(request: web.Request) -> web.Response:
    """Answer a link for each file of external weights."""
    run, kind, name = (unquote(request.match_info[each]) for each in ("run", "kind", "name"))
    path = paths.parsed(f"tinker://{run}/{kind}/{name}")
    if path.kind != "external_weights":
        raise Refused("path: only external weights have links; save them with save_weights_external")
    context, tenant = request.app[MANAGER].context, caller(request)
    row = await context.journal.row("SELECT * FROM checkpoints WHERE path = ? AND tenant = ?", str(path), tenant)
    if row is None:
        raise MissingError(f"{str(path)[:300]}: there is no such checkpoint, or it is not yours")
    urls = {each: _link(request, str(path), file=each) for each in await _files(row["folder"])}
    await events.read(context.journal, row, tenant, "download", context.clock())
    expires = min(context.clock() + context.config.limits.link, request["key_expires"] or endings.EVER)
    return json({"urls": urls, "expires": datetime.fromtimestamp(expires, UTC).isoformat()})


@routes.get("/api/v1/sessions/{id}/trace_export")
async def trace_export(request: web.Request) -> web.Response:
    """Answer a link to the trace of a session, which is made when it is fetched."""
    session = await own_session(request, request.match_info["id"])
    return json({"status": "ready", "url": _link(request, f"session:{session['id']}")})


def _link(request: web.Request, subject: str, **claims: Any) -> str:
    config = request.app[MANAGER].context.config
    claims |= {"tenant": caller(request), "key": request["key"]}
    token = request.app[TOKENS].issue("download", subject, int(config.limits.link), **claims)
    return f"{config.url or _origin(request)}/api/v1/download?{urlencode({'token': token})}"


def _origin(request: web.Request) -> str:
    """Return where the caller says that he reached this Gateway."""
    with suppress(ValueError):
        if not set(request.host) & set("/?#@\\"):
            return str(request.url.origin())
    raise web.HTTPBadRequest(text="Host: is not the name of a host, with a port or without one")


@routes.get("/api/v1/download")
async def download(request: web.Request) -> web.StreamResponse:
    """Answer what a link is for."""
    told = request["link"]
    subject = str(told["sub"])
    if subject.startswith("session:"):
        return await _trace(request, subject.removeprefix("session:"))
    return await _file(request.app[MANAGER].context, subject, caller(request), str(told.get("file")))


async def _trace(request: web.Request, session: str) -> web.Response:
    answer = web.Response(content_type="application/json", headers=_as(f"{session}.json"))
    async with request.app[TRACES][caller(request)]:
        answer.body = await trace(request.app[MANAGER].context.journal, session)
        with suppress(ConnectionResetError):  # whoever asked has gone
            await answer.prepare(request)
            await answer.write_eof()
    return answer


async def _file(context: Context, path: str, tenant: str, name: str) -> web.StreamResponse:
    row = await context.journal.row("SELECT folder FROM checkpoints WHERE path = ? AND tenant = ?", path, tenant)
    if row is None or name not in await _files(row["folder"]):
        raise MissingError("what this link was for has been deleted")
    return web.FileResponse(Path(row["folder"]) / name, headers=_as(name))


async def _files(folder: str) -> list[str]:
    """Return the names of the files that may be fetched; none when they were deleted meanwhile."""
    with suppress(FileNotFoundError):
        return await asyncio.to_thread(external.files, Path(folder))
    return []


def _as(name: str) -> dict[str, str]:
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
