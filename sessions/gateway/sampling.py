"""Sampling sessions and their requests."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from muster.sessions.gateway import bodies
from muster.sessions.gateway.answers import MOST, MissingError, body, json, members, read, told
from muster.sessions.gateway.state import MANAGER, accepted, caller, own_sampler, own_session
from muster.sessions.journal import entries
from muster.sessions.journal.store import ChangedError, Connection
from muster.sessions.runs import events, quotas, weights
from muster.sessions.seam import Refused
from muster.sessions.wire import samples

__all__ = ["routes"]

routes = web.RouteTableDef()
_HELD = "UPDATE checkpoints SET path = path WHERE path = ? RETURNING folder"
_INSERT = (
    "INSERT INTO samplers (id, session, base, path, folder, created) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_JOIN = "UPDATE samplers SET clones = clones + 1 WHERE id = ? RETURNING clones"
_TOKEN = 256  # bytes for each token of a prompt, with as many targets as people score


@routes.post("/api/v1/create_sampling_session")
async def create_sampling_session(request: web.Request) -> web.Response:
    """Begin to sample from the base, or from weights that have a name; these stay as long as the session."""
    asked = await body(request, bodies.CreateSamplingSession)
    context = request.app[MANAGER].context
    session = await own_session(request, asked.session_id)
    if session["ended"] is not None:
        raise MissingError(f"{asked.session_id}: this session has ended; begin a new one")
    if asked.base_model not in {None, context.config.name}:
        raise Refused(f"base_model: {str(asked.base_model)[:200]}: is not served here; {context.config.name} is")
    if asked.base_model is None and asked.model_path is None:
        raise Refused("model_path: is missing; give it or a base_model")
    source = None
    if asked.model_path is not None:
        source = await weights.loadable(context.journal, asked.model_path, caller(request))
    id_ = f"{session['id']}:sample:{asked.sampling_session_seq_id}"
    values = (id_, session["id"], context.config.name, asked.model_path)
    quota, path = context.config.quotas.of(caller(request)), source["path"] if source else None
    new = await context.journal.run(_kept, caller(request), quota, values, path, context.clock())
    if new and source is not None:
        await events.read(context.journal, source, caller(request), "sample", context.clock())
    return json({"type": "create_sampling_session", "sampling_session_id": id_})


def _kept(  # noqa: PLR0913  # what a sampling session is made of
    connection: Connection, tenant: str, quota: quotas.Quota, values: tuple[Any, ...], source: str | None, now: float
) -> bool:
    """Keep a sampling session; False when it is there already.

    Raises:
        Refused: when its weights were deleted meanwhile, or the tenant has as many records as he may.
        ChangedError: when another sampling session has the number.
    """
    quotas.hold(connection, tenant)
    folder = None
    if source is not None:  # held until the session is there: whoever deletes the weights then sees that it needs them
        held = connection.execute(_HELD, (source,)).fetchone()
        if held is None:
            raise Refused(f"model_path: {source[:200]}: these weights were deleted meanwhile")
        folder = held["folder"]
    if connection.execute(_INSERT, (*values, folder, now)).rowcount:
        quotas.record(connection, tenant, quota)
        return True
    known = connection.execute("SELECT path, model FROM samplers WHERE id = ?", values[:1]).fetchone()
    if (known["path"], known["model"]) != (values[3], None):
        raise ChangedError(f"{values[0]}: this number was used before for another sampling session; take the next one")
    return False


@routes.post("/api/v1/join_sampling_session")
async def join_sampling_session(request: web.Request) -> web.Response:
    """Give a clone of a client a number of its own."""
    sampler = await own_sampler(request, str((await members(request)).get("sampling_session_id")))
    journal = request.app[MANAGER].context.journal
    return json({"type": "join_sampling_session", "client_counter": await journal.run(_joined, sampler["id"])})


def _joined(connection: Connection, sampler: str) -> int:
    """Count a clone of a sampling session, and return its number; 1 where the session is gone meanwhile."""
    row = connection.execute(_JOIN, (sampler,)).fetchone()
    return int(row["clones"]) if row else 1


@routes.get("/api/v1/samplers/{id}")
async def sampler_of(request: web.Request) -> web.Response:
    """Answer what a sampling session samples from."""
    sampler = await own_sampler(request, request.match_info["id"])
    return json({"sampler_id": sampler["id"], "base_model": sampler["base"], "model_path": sampler["path"]})


@routes.post("/api/v1/asample")
async def asample(request: web.Request) -> web.Response:
    """Keep a prompt, and promise its sequences by id."""
    manager = request.app[MANAGER]
    config = manager.context.config
    data = await read(request, min(config.limits.body, MOST + _TOKEN * config.context))
    session, seq, count = await told(request, samples.address, data)
    sampler = await own_sampler(request, session)
    if sampler["ended"] is not None:
        raise MissingError(f"{sampler['id']}: the session of this sampler has ended")
    entry = entries.Request(caller(request), sampler["id"], seq, "sample", data)
    if await accepted(request, entry):
        manager.samples.begin(entry.id)
    ids = [f"{entry.id}:{number}" for number in range(count)]
    return json({"request_id": entry.id, "sample_sequence_ids": ids})
