"""What a tenant may look up and change: training runs, checkpoints, sessions."""

from __future__ import annotations

import json as texts
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from muster.sessions.gateway import projects
from muster.sessions.gateway.answers import MissingError, json, members
from muster.sessions.gateway.state import MANAGER, caller, own_model, own_session
from muster.sessions.journal.store import Row
from muster.sessions.runs import endings, events, paths, weights
from muster.sessions.seam import Refused

__all__ = ["routes"]

routes = web.RouteTableDef()
_RUN = "/api/v1/training_runs/{run}"
_CHECKPOINT = _RUN + "/checkpoints/{kind}/{name}"
_TYPES = {"weights": "training", "sampler_weights": "sampler", "external_weights": "external"}
_MOST = 64 << 20  # characters of one answer
_MEMBERS = ("path", "created", "size", "public", "metadata", "expires")
"""Of a checkpoint, as answers have them."""
_LAST = {"last": "weights", "sampler": "sampler_weights"}
"""The checkpoints that are answered with a run, by their kind."""
_OF = "FROM models JOIN sessions ON sessions.id = models.session WHERE sessions.tenant = ?"
_IDS = f"SELECT models.id, models.session {_OF} ORDER BY models.created DESC, models.id"
_COUNT = f"SELECT count(*) AS total {_OF}"


def _with_last(page: str) -> str:
    """Return a query of models with the last checkpoints of each: one statement, whatever the number of rows."""
    columns = [f"{kind}.{member} AS {kind}_{member}" for kind in _LAST for member in _MEMBERS]
    joins = [
        f"LEFT JOIN checkpoints AS {kind} ON {kind}.path = (SELECT path FROM checkpoints WHERE run = page.id"  # noqa: S608  # no value in it
        f" AND path LIKE 'tinker://%/{folder}/%' ORDER BY created DESC, path LIMIT 1)"
        for kind, folder in _LAST.items()
    ]
    return f"WITH page AS ({page}) SELECT page.*, {', '.join(columns)} FROM page {' '.join(joins)}"  # noqa: S608  # as above


_PAGE = f"SELECT models.*, sessions.tenant, count(*) OVER () AS total {_OF}"
_NEWEST = f"{_PAGE} ORDER BY models.created DESC, models.id LIMIT ? OFFSET ?"
_RUNS = f"{_with_last(_NEWEST)} ORDER BY page.created DESC, page.id"
_ONE = _with_last(f"{_PAGE} AND models.id = ?")


@routes.get("/api/v1/training_runs")
async def training_runs(request: web.Request) -> web.Response:
    """Answer a page of runs, the newest first."""
    journal, tenant = request.app[MANAGER].context.journal, caller(request)
    limit, offset = _page(request)
    project = request.query.get("project_id")
    if project is None:
        rows = await journal.rows(_RUNS, tenant, limit, offset)
        total = rows[0] if rows else await journal.row(_COUNT, tenant)
        return json({"training_runs": [*map(_run, rows)], "cursor": _cursor(limit, offset, total)})
    of = await projects.projects(journal, tenant)
    ids = [row["id"] for row in await journal.rows(_IDS, tenant) if of.get(row["session"]) == project]
    runs = [_run(await _row(request, each)) for each in ids[offset : offset + limit]]
    return json({"training_runs": runs, "cursor": {"offset": offset, "limit": limit, "total_count": len(ids)}})


@routes.get(_RUN)
async def training_run(request: web.Request) -> web.Response:
    """Answer one run."""
    return json(_run(await _row(request, unquote(request.match_info["run"]))))


@routes.get(_RUN + "/checkpoints")
async def checkpoints_of(request: web.Request) -> web.Response:
    """Answer the checkpoints of a run."""
    model = await own_model(request, unquote(request.match_info["run"]))
    journal = request.app[MANAGER].context.journal
    large = await journal.row("SELECT sum(length(metadata)) FROM checkpoints WHERE run = ?", model["id"])
    if large is not None and (large[0] or 0) > _MOST:
        raise Refused(
            f"run: its checkpoints have more than {_MOST} bytes of metadata; ask for pages of all checkpoints"
        )
    query = "SELECT * FROM checkpoints WHERE run = ? ORDER BY created DESC, path"
    rows = await journal.rows(query, model["id"])
    return json({"checkpoints": [_checkpoint(each) for each in rows]})


@routes.get("/api/v1/checkpoints")
async def checkpoints(request: web.Request) -> web.Response:
    """Answer a page of all checkpoints of the caller."""
    journal, tenant = request.app[MANAGER].context.journal, caller(request)
    limit, offset = _page(request)
    total = await journal.row("SELECT count(*) AS total FROM checkpoints WHERE tenant = ?", tenant)
    query = "SELECT * FROM checkpoints WHERE tenant = ? ORDER BY created DESC, path LIMIT ? OFFSET ?"
    rows = await journal.rows(query, tenant, limit, offset)
    return json({"checkpoints": [_checkpoint(each) for each in rows], "cursor": _cursor(limit, offset, total)})


@routes.delete(_CHECKPOINT)
async def delete_checkpoint(request: web.Request) -> web.Response:
    """Delete a checkpoint; its weights go when no sampling session samples from them."""
    row = await _own_checkpoint(request)
    context = request.app[MANAGER].context
    await endings.delete(context.journal, row, context.clock())
    return web.Response(status=204)


@routes.put(_CHECKPOINT + "/ttl")
async def set_ttl(request: web.Request) -> web.Response:
    """Have a checkpoint expire, or never."""
    row, seconds = await _own_checkpoint(request), (await members(request)).get("ttl_seconds")
    if seconds is not None and (not isinstance(seconds, int) or not 3600 <= seconds <= 315_360_000):
        raise Refused("ttl_seconds: is not a number of seconds from 3600 to 315360000, or null for never")
    context = request.app[MANAGER].context
    expires = context.clock() + seconds if seconds is not None else None
    await context.journal.execute("UPDATE checkpoints SET expires = ? WHERE path = ?", expires, row["path"])
    await _note(request, "checkpoint_expiry_set", tinker_path=row["path"], ttl_seconds=seconds)
    return web.Response(status=204)


@routes.post(_CHECKPOINT + "/publish")
async def publish(request: web.Request) -> web.Response:
    """Let other tenants load a checkpoint."""
    return await _public(request, 1)


@routes.delete(_CHECKPOINT + "/publish")
async def unpublish(request: web.Request) -> web.Response:
    """Let other tenants not load a checkpoint any more."""
    return await _public(request, 0)


@routes.post("/api/v1/weights_info")
async def weights_info(request: web.Request) -> web.Response:
    """Answer what weights are of."""
    journal = request.app[MANAGER].context.journal
    row = await weights.readable(journal, str((await members(request)).get("tinker_path")), caller(request))
    model = await journal.row("SELECT base, lora FROM models WHERE id = ?", row["run"])
    if model is None:
        raise MissingError(f"{row['path']}: its run is not known any more")
    lora = texts.loads(model["lora"])
    flags = {key: lora[key] for key in ("train_unembed", "train_mlp", "train_attn")}
    return json({"base_model": model["base"], "is_lora": lora["rank"] > 0, "lora_rank": lora["rank"] or None, **flags})


@routes.get("/api/v1/sessions")
async def sessions(request: web.Request) -> web.Response:
    """Answer a page of the ids of the caller's sessions, the newest first."""
    limit, offset = _page(request)
    query = "SELECT id FROM sessions WHERE tenant = ? ORDER BY created DESC, id LIMIT ? OFFSET ?"
    rows = await request.app[MANAGER].context.journal.rows(query, caller(request), limit, offset)
    return json({"sessions": [each["id"] for each in rows]})


@routes.get("/api/v1/sessions/{id}")
async def session_of(request: web.Request) -> web.Response:
    """Answer a session with its runs and samplers."""
    session = await own_session(request, request.match_info["id"])
    journal = request.app[MANAGER].context.journal
    runs = await journal.rows("SELECT id FROM models WHERE session = ? ORDER BY created, id", session["id"])
    samplers = await journal.rows("SELECT id FROM samplers WHERE session = ? ORDER BY created, id", session["id"])
    about = texts.loads(session["about"])
    return json(
        {
            "training_run_ids": [each["id"] for each in runs],
            "sampler_ids": [each["id"] for each in samplers],
            "user_metadata": _metadata(about["user_metadata"]),
            "display_name": about["display_name"],
        }
    )


@routes.put("/api/v1/sessions/{id}/project")
async def set_project(request: web.Request) -> web.Response:
    """Note the project of a session."""
    session, project = await own_session(request, request.match_info["id"]), (await members(request)).get("project_id")
    if not isinstance(project, str) or not 1 <= len(project) <= 200:
        raise Refused("project_id: is missing, or is not a text of 1 to 200 characters")
    about = {**texts.loads(session["about"]), "project_id": project}
    update = "UPDATE sessions SET about = ? WHERE id = ?"
    await request.app[MANAGER].context.journal.execute(update, texts.dumps(about), session["id"])
    await _note(request, "project_session_assigned", session_id=session["id"], project_id=project)
    return web.Response(status=204)


async def _own_checkpoint(request: web.Request) -> Row:
    run, kind, name = (unquote(request.match_info[each]) for each in ("run", "kind", "name"))
    path = str(paths.parsed(f"tinker://{run}/{kind}/{name}"))
    query = "SELECT * FROM checkpoints WHERE path = ? AND tenant = ?"
    row = await request.app[MANAGER].context.journal.row(query, path, caller(request))
    if row is None:
        raise MissingError(f"{path[:300]}: there is no such checkpoint, or it is not yours")
    return row


async def _public(request: web.Request, flag: int) -> web.Response:
    row = await _own_checkpoint(request)
    update = "UPDATE checkpoints SET public = ? WHERE path = ?"
    await request.app[MANAGER].context.journal.execute(update, flag, row["path"])
    await _note(request, "checkpoint_published" if flag else "checkpoint_unpublished", tinker_path=row["path"])
    return web.Response(status=204)


async def _note(request: web.Request, event: str, **details: Any) -> None:
    context = request.app[MANAGER].context
    await events.note(context.journal, caller(request), event, context.clock(), **details)


async def _row(request: web.Request, run: str) -> Row:
    """Return a run of the caller with its last checkpoints. Raises `MissingError`."""
    await own_model(request, run)
    (row,) = await request.app[MANAGER].context.journal.rows(_ONE, caller(request), run)
    return row


def _run(row: Row) -> dict[str, Any]:
    last, sampler = ({each: row[f"{kind}_{each}"] for each in _MEMBERS} for kind in _LAST)
    return {
        "training_run_id": row["id"],
        "base_model": row["base"],
        "model_owner": row["tenant"],
        "is_lora": (rank := texts.loads(row["lora"])["rank"]) > 0,
        "lora_rank": rank or None,
        "last_request_time": _time(row["used"]),
        "last_checkpoint": _checkpoint(last) if last["path"] else None,
        "last_sampler_checkpoint": _checkpoint(sampler) if sampler["path"] else None,
        "user_metadata": _metadata(texts.loads(row["metadata"])),
    }


def _checkpoint(row: Row | Mapping[str, Any]) -> dict[str, Any]:
    path = paths.parsed(row["path"])
    return {
        "checkpoint_id": f"{path.kind}/{path.name}",
        "checkpoint_type": _TYPES[path.kind],
        "time": _time(row["created"]),
        "tinker_path": row["path"],
        "size_bytes": row["size"],
        "public": bool(row["public"]),
        "user_metadata": texts.loads(row["metadata"]) if row["metadata"] else None,
        "expires_at": _time(row["expires"]) if row["expires"] is not None else None,
    }


def _metadata(of: dict[str, Any] | None) -> dict[str, str] | None:
    return {key: value if isinstance(value, str) else texts.dumps(value) for key, value in of.items()} if of else None


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _page(request: web.Request) -> tuple[int, int]:
    """Return how many rows are asked for, and after how many; whatever the scope, a caller sees his own."""
    if request.query.get("access_scope", "owned") not in {"owned", "accessible"}:
        raise Refused("access_scope: is neither owned nor accessible")
    try:
        limit, offset = int(request.query.get("limit", "50")), int(request.query.get("offset", "0"))
    except ValueError as error:
        raise Refused("limit: and offset: are whole numbers") from error
    return min(max(limit, 1), 500), min(max(offset, 0), 2**53)


def _cursor(limit: int, offset: int, total: Row | None) -> dict[str, int]:
    return {"offset": offset, "limit": limit, "total_count": total["total"] if total else 0}
