"""Requests of a model: each goes into the journal under its number, and is answered at once with a promise."""

from __future__ import annotations

import functools
import json as texts
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import orjson
from aiohttp import web

from muster.sessions.gateway import bodies
from muster.sessions.gateway.answers import Handler, MissingError, body, head, json, members, read, told
from muster.sessions.gateway.state import MANAGER, accepted, caller, own_model, own_session
from muster.sessions.journal import entries
from muster.sessions.journal.store import ChangedError, Connection, Row
from muster.sessions.runs import events, quotas, weights
from muster.sessions.seam import Refused
from muster.sessions.weights import encryption
from muster.sessions.wire import steps

__all__ = ["routes"]

routes = web.RouteTableDef()
_INSERT = (
    "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, -1, -1) ON CONFLICT DO NOTHING"
)


def _numbered(handler: Handler) -> Handler:
    """Have a refused request take its number, or the passes after it would wait for the number until it is given up."""

    @functools.wraps(handler)
    async def handled(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refused as error:
            asked = await members(request)
            model, seq = asked.get("model_id"), asked.get("seq_id")
            if isinstance(model, str) and type(seq) is int and 1 <= seq <= bodies.MOST:
                with suppress(ChangedError, MissingError):
                    await _promise_json(request, model, seq, entries.REFUSED, {"detail": str(error)})
            raise

    return handled


@routes.post("/api/v1/create_model")
async def create_model(request: web.Request) -> web.Response:
    """Make a model, whose id the client can predict."""
    asked = await body(request, bodies.CreateModel)
    _base(request, asked.base_model)
    lora = (asked.lora_config or bodies.LoraConfig(rank=0)).model_dump()
    _kind(request, lora["rank"])
    if not (lora["train_mlp"] or lora["train_attn"] or lora["train_unembed"]):
        raise Refused("lora_config: trains nothing; set one of train_mlp, train_attn and train_unembed")
    session = await _open_session(request, asked.session_id)
    return await _new(
        request, session, asked.model_seq_id, "create_model", lora, asked.user_metadata, asked.model_dump()
    )


@routes.post("/api/v1/forward_backward")
async def forward_backward(request: web.Request) -> web.Response:
    """Keep a pass, also one that is refused.

    A client sends the first chunk of a call when the others were accepted, and its other requests after that: were a
    chunk refused here, it would wait for its own turn for ever (tinker 0.38.0, `TrainingClient._take_turn`).
    """
    if "protobuf" not in request.content_type:
        raise Refused("Content-Type: is not application/x-protobuf; use a client of tinker 0.25.0 or later")
    try:
        data = await read(request, request.app[MANAGER].context.config.limits.body)
        model, seq, forward_only = await told(request, steps.address, data)
        return await _promise(request, model, seq, "forward" if forward_only else "forward_backward", data)
    except (Refused, web.HTTPRequestEntityTooLarge) as error:
        found = steps.named(head(request, steps.HEAD))
        if found is None:
            raise
        why = str(error.text if isinstance(error, web.HTTPException) else error)
        return await _promise_json(request, *found, entries.REFUSED_STEP, {"detail": why})


@routes.post("/api/v1/optim_step")
@_numbered
async def optim_step(request: web.Request) -> web.Response:
    """Keep an optimizer step."""
    if "optimizer_params" in await members(request):
        raise Refused("optimizer_params: only AdamW is done here; pass AdamParams")
    asked = await body(request, bodies.Optim)
    return await _promise_json(request, asked.model_id, asked.seq_id, "optim_step", asked.model_dump())


@routes.post("/api/v1/save_weights")
@_numbered
async def save_weights(request: web.Request) -> web.Response:
    """Keep that weights and optimizer be saved."""
    asked = await body(request, bodies.Save)
    return await _promise_json(request, asked.model_id, asked.seq_id, "save_weights", asked.model_dump())


@routes.post("/api/v1/save_weights_for_sampler")
@_numbered
async def save_weights_for_sampler(request: web.Request) -> web.Response:
    """Keep that weights be saved to sample from."""
    asked = await body(request, bodies.SaveForSampler)
    if (asked.path is None) == (asked.sampling_session_seq_id is None):
        raise Refused("path: give a name, or a sampling_session_seq_id, and not both")
    return await _promise_json(request, asked.model_id, asked.seq_id, "save_weights_for_sampler", asked.model_dump())


@routes.post("/api/v1/save_weights_external")
@_numbered
async def save_weights_external(request: web.Request) -> web.Response:
    """Keep that weights be saved to take away."""
    asked = await body(request, bodies.SaveExternal)
    encryption.recipients(asked.age_encryption_recipients or [])
    return await _promise_json(request, asked.model_id, asked.seq_id, "save_weights_external", asked.model_dump())


@routes.post("/api/v1/load_weights")
@_numbered
async def load_weights(request: web.Request) -> web.Response:
    """Keep that weights be loaded, into a model that exists or into a new one."""
    asked = await body(request, bodies.Load)
    if asked.weights_access_token:
        raise Refused("weights_access_token: is not done here; have the weights published")
    if asked.session_id is None or asked.model_seq_id is None:
        if asked.model_id is None or asked.seq_id is None:
            raise Refused("model_id: is missing, or its seq_id; or give session_id and model_seq_id")
        return await _promise_json(request, asked.model_id, asked.seq_id, "load_weights", asked.model_dump())
    if asked.base_model is not None:
        _base(request, asked.base_model)
    session = await _open_session(request, asked.session_id)
    context = request.app[MANAGER].context
    source = await weights.loadable(context.journal, asked.path, caller(request))
    await events.read(context.journal, source, caller(request), "train", context.clock())
    origin = await context.journal.row("SELECT lora FROM models WHERE id = ?", source["run"])
    lora = orjson.loads(origin["lora"]) if origin else {}
    dumped = asked.model_dump()
    return await _new(request, session, asked.model_seq_id, "load_weights", lora, asked.user_metadata, dumped)


@routes.post("/api/v1/get_info")
async def get_info(request: web.Request) -> web.Response:
    """Answer what a model is."""
    model = await own_model(request, (await body(request, bodies.ModelOnly)).model_id)
    lora = orjson.loads(model["lora"])
    return json(
        {
            "type": "get_info",
            "model_data": {"arch": "causal-lm", "model_name": model["base"], "tokenizer_id": model["base"]},
            "model_id": model["id"],
            "is_lora": lora["rank"] > 0,
            "lora_rank": lora["rank"] or None,
            "model_name": model["base"],
        }
    )


@routes.post("/api/v1/unload_model")
async def unload_model(request: web.Request) -> web.Response:
    """Free a model."""
    model = await own_model(request, (await body(request, bodies.ModelOnly)).model_id)
    if model["unloaded"] is None:
        await request.app[MANAGER].unload(model["id"])
    asked = entries.Request(caller(request), model["id"], -1, "unload_model", b"")
    context = request.app[MANAGER].context
    await context.journal.run(_unloaded, asked, context.clock())
    return json({"request_id": asked.id, "model_id": model["id"]})


def _unloaded(connection: Connection, asked: entries.Request, now: float) -> None:
    """Keep the request together with its result."""
    entries.accept(connection, asked, now)
    result = orjson.dumps({"model_id": asked.target, "type": "unload_model"})
    entries.finish(connection, asked.id, result, "json", now)


def _base(request: web.Request, name: str) -> None:
    known = request.app[MANAGER].context.config.name
    if name != known:
        raise Refused(f"base_model: {name[:200]}: is not served here; {known} is")


def _kind(request: web.Request, rank: int) -> None:
    full = request.app[MANAGER].context.config.full
    if full and rank > 0:
        raise Refused(f"lora_config.rank: {rank}: all weights are trained here; pass rank=0")
    if rank == 0 and not full:
        raise Refused("lora_config.rank: 0: adapters are trained here; pass a rank, or ask for a Gateway with --full")


async def _open_session(request: web.Request, id_: str) -> Row:
    session = await own_session(request, id_)
    if session["ended"] is not None:
        raise MissingError(f"{id_}: this session has ended; begin a new one")
    return session


async def _new(  # noqa: PLR0913  # what a model is made of
    request: web.Request,
    session: Row,
    number: int,
    kind: str,
    lora: dict[str, Any],
    metadata: dict[str, Any] | None,
    asked: dict[str, Any],
) -> web.Response:
    """Keep a model and its first request, which has the number 0."""
    context = request.app[MANAGER].context
    id_, now = f"{session['id']}:train:{number}", context.clock()
    # A seed is drawn here, so that an engine that starts anew makes the same model again.
    values = {**lora, "seed": lora.get("seed") if lora.get("seed") is not None else secrets.randbits(31)}
    row = (id_, session["id"], context.config.name, texts.dumps(values), texts.dumps(metadata or {}), now, now)
    tenant = caller(request)
    keep = functools.partial(_kept, alone=context.config.full)
    await context.journal.run(keep, tenant, context.config.quotas.of(tenant), row)
    return await _promise_json(request, id_, 0, kind, asked)


def _kept(connection: Connection, tenant: str, quota: quotas.Quota, row: Sequence[object], *, alone: bool) -> None:
    """Keep a model, unless it is there already. Raises `Refused` for one too many."""
    if connection.execute("SELECT 1 FROM models WHERE id = ?", row[:1]).fetchone() is None:
        quotas.model(connection, tenant, quota)
        if alone and connection.execute("SELECT 1 FROM models WHERE unloaded IS NULL").fetchone() is not None:
            raise Refused("base_model: all weights are trained here, of one model at a time; ask again when it is over")
        connection.execute(_INSERT, row)


async def _promise_json(request: web.Request, model: str, seq: int, kind: str, asked: dict[str, Any]) -> web.Response:
    body_ = orjson.dumps({**asked, "tenant": caller(request)})
    return await _promise(request, model, seq, kind, body_)


async def _promise(request: web.Request, model: str, seq: int, kind: str, data: bytes) -> web.Response:
    row = await own_model(request, model)
    asked, manager = entries.Request(caller(request), model, seq, kind, data), request.app[MANAGER]
    if row["unloaded"] is not None or row["ended"] is not None:
        if not await manager.context.journal.run(entries.is_known, asked):
            why = texts.loads(row["status"]).get("detail")
            told = f"{model[:200]}: this model was unloaded, or its session has ended"
            raise MissingError(f"{told}: {why}" if why else told)
    elif await accepted(request, asked, entries.promise):
        manager.model(model).wake()
    return json({"request_id": asked.id, "model_id": model})
