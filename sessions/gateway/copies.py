"""Copies of weights: another name for the same folder, in a run that trains nothing."""

from __future__ import annotations

import hashlib
import json as texts
from typing import Annotated, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from muster.sessions.gateway import bodies
from muster.sessions.gateway.answers import body, json
from muster.sessions.gateway.state import MANAGER, caller, new_id, own_session
from muster.sessions.journal.store import ChangedError, Row
from muster.sessions.runs import events, paths, quotas, weights
from muster.sessions.seam import Refused

__all__ = ["routes"]

routes = web.RouteTableDef()
_SESSION = (
    "INSERT INTO sessions (id, tenant, created, seen, ended, status, about) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)
_MODEL = (
    "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot, unloaded)"
    " SELECT ?, ?, base, lora, '{}', ?, ?, -1, -1, ? FROM models WHERE id = ? ON CONFLICT DO NOTHING"
)
_CHECKPOINT = (
    "INSERT INTO checkpoints (path, run, tenant, folder, size, created, expires, metadata)"
    " SELECT ?, ?, ?, folder, size, ?, ?, metadata FROM checkpoints WHERE path = ? ON CONFLICT DO NOTHING"
)
_HELD = "UPDATE checkpoints SET path = path WHERE path = ? RETURNING folder"
"""Keeps the weights there until the copy is: whoever deletes them then sees that it needs their folder."""
_STATUS = '{"type": "client_finished", "reason": {"type": "success"}, "detail": "holds a copy of weights"}'


class _Copy(BaseModel):
    """`copy_weights`."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())
    session_id: str | None = None
    model_seq_id: int | None = Field(default=None, ge=0, le=bodies.MOST)
    destination_project_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    source_path: str
    ttl_seconds: Annotated[int, Field(ge=3600, le=315_360_000)] | None = None
    weights_access_token: str | None = None


@routes.post("/api/v1/copy_weights")
async def copy_weights(request: web.Request) -> web.Response:
    """Copy weights; sent again under its idempotency key, it is the same copy."""
    asked = await body(request, _Copy)
    if asked.weights_access_token or "X-Tinker-Weights-Access-Token" in request.headers:
        raise Refused("weights_access_token: is not done here; have the weights published")
    if (asked.session_id is None) == (asked.destination_project_id is None):
        raise Refused("destination_project_id: give it, or a session_id with its model_seq_id, and not both")
    context, tenant = request.app[MANAGER].context, caller(request)
    source = await weights.loadable(context.journal, asked.source_path, tenant)
    session = await _session(request, asked)
    run = f"{session}:train:{asked.model_seq_id or 0}"
    of = paths.parsed(source["path"])
    copy = paths.Checkpoint(run, of.kind, of.name)
    quota = context.config.quotas.of(tenant)
    new = await context.journal.run(_kept, tenant, quota, session, asked, source, copy, context.clock())
    if new:
        await events.read(context.journal, source, tenant, "copy", context.clock())
        about = {"tinker_path": str(copy), "source_path": source["path"], "user": f"tml:user:{tenant}"}
        await events.note(context.journal, tenant, "checkpoint_copied", context.clock(), **about)
    return json({"tinker_path": str(copy)})


async def _session(request: web.Request, asked: _Copy) -> str:
    """Return the session of a copy: the caller's own, or one that the idempotency key gives."""
    if asked.session_id is None:
        key = request.headers.get("X-Idempotency-Key") or new_id()
        return hashlib.sha256(f"{caller(request)}\0{key}".encode(errors="surrogateescape")).hexdigest()[:24]
    if asked.model_seq_id is None:
        raise Refused("model_seq_id: is missing; give it with session_id")
    return str((await own_session(request, asked.session_id))["id"])


def _kept(  # noqa: PLR0913  # what a copy is made of
    connection: Any,
    tenant: str,
    quota: quotas.Quota,
    session: str,
    asked: _Copy,
    source: Row,
    copy: paths.Checkpoint,
    now: float,
) -> bool:
    """Keep a copy; False when it is there already. Raises `ChangedError` where its place is taken."""
    quotas.hold(connection, tenant)
    if connection.execute(_HELD, (source["path"],)).fetchone() is None:
        raise Refused(f"source_path: {asked.source_path[:200]}: was deleted meanwhile")
    if source["tenant"] != tenant:  # a copy of his own shares its bytes
        quotas.has_room(connection, tenant, quota, str(copy), source["folder"], source["size"])
    about: dict[str, Any] = {"tags": [], "user_metadata": None, "display_name": None, "sdk_version": ""}
    text = texts.dumps({**about, "project_id": asked.destination_project_id})
    expires = now + asked.ttl_seconds if asked.ttl_seconds else None
    added = connection.execute(_SESSION, (session, tenant, now, now, now, _STATUS, text)).rowcount
    added += connection.execute(_MODEL, (copy.run, session, now, now, now, source["run"])).rowcount
    new = connection.execute(_CHECKPOINT, (str(copy), copy.run, tenant, now, expires, source["path"])).rowcount
    if new + added:
        quotas.record(connection, tenant, quota)
    held = connection.execute(
        "SELECT checkpoints.folder, models.unloaded, models.created, models.used FROM checkpoints"
        " JOIN models ON models.id = checkpoints.run WHERE path = ?",
        (str(copy),),
    ).fetchone()
    if held["folder"] != source["folder"] or held["unloaded"] is None:
        raise ChangedError(f"{copy.run}: this run is another one's; copy under another model_seq_id")
    return bool(new)
