"""Searching sessions: the newest first, page by page."""

from __future__ import annotations

import json as texts
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from muster.sessions.gateway.answers import body, json
from muster.sessions.gateway.state import MANAGER, caller
from muster.sessions.journal.store import Journal, Row

__all__ = ["routes"]

routes = web.RouteTableDef()
_STEP = 50  # sessions that are looked at in one query, while nobody else is answered
_Names = Annotated[list[str], Field(max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Owner(_Strict):
    type: Literal["own", "accessible", "user"] = "own"
    owner_urns: Annotated[list[str], Field(min_length=1, max_length=10)] | None = None


class _Status(_Strict):
    type: Literal["active", "cancelled", "failed", "client_finished"]
    reasons: (
        Annotated[list[Literal["success", "errored", "interrupted"]], Field(min_length=1, max_length=10)] | None
    ) = None


class _Cursor(_Strict):
    last_created_at: AwareDatetime
    last_session_id: str


class _Search(_Strict):
    """`sessions/search` (`tinker.types.SessionSearchRequest` 0.38.0); a caller finds his own sessions only."""

    session_id: str | None = None
    project_ids: _Names | None = None
    user_metadata: Annotated[dict[str, str], Field(max_length=100)] = Field(default_factory=dict)
    display_name: str | None = Field(default=None, min_length=1, max_length=500)
    owner: _Owner = _Owner()
    statuses: Annotated[list[_Status], Field(min_length=1, max_length=20)] | None = None
    limit: int = Field(default=50, ge=1, le=200)
    cursor: _Cursor | None = None


@routes.post("/api/v1/sessions/search")
async def search(request: web.Request) -> web.Response:
    """Answer the caller's sessions that a search means, one page."""
    asked, tenant = await body(request, _Search), caller(request)
    journal = request.app[MANAGER].context.journal
    found: list[Row] = []
    async for row in _sessions(journal, tenant, asked):
        if len(found) <= asked.limit and _is_meant(asked, row):
            found.append(row)
        if len(found) > asked.limit:
            break
    page = found[: asked.limit]
    next_ = _cursor(page[-1]) if len(found) > asked.limit else None
    return json({"sessions": [await _summary(journal, each) for each in page], "next_cursor": next_})


async def _sessions(journal: Journal, tenant: str, asked: _Search) -> AsyncIterator[Row]:
    """Yield a tenant's sessions after the cursor, the newest first."""
    created, last = await _start(journal, tenant, asked.cursor)
    query = (
        "SELECT * FROM sessions WHERE tenant = ? AND (created < ? OR (created = ? AND id > ?))"
        " ORDER BY created DESC, id LIMIT ?"
    )
    while rows := await journal.rows(query, tenant, created, created, last, _STEP):
        for row in rows:
            yield row
        created, last = rows[-1]["created"], rows[-1]["id"]


async def _start(journal: Journal, tenant: str, cursor: _Cursor | None) -> tuple[float, str]:
    if cursor is None:
        return 1e300, ""
    query = "SELECT created FROM sessions WHERE id = ? AND tenant = ?"
    row = await journal.row(query, cursor.last_session_id, tenant)
    # The time in the cursor is rounded to microseconds; the session knows its own.
    return (row["created"] if row else cursor.last_created_at.timestamp()), cursor.last_session_id


def _is_meant(asked: _Search, session: Row) -> bool:
    about = texts.loads(session["about"])
    held = _metadata(about) or {}
    return (
        (asked.owner.type != "user" or _urn(session) in (asked.owner.owner_urns or ()))
        and (asked.project_ids is None or _project(about) in asked.project_ids)
        and (asked.statuses is None or any(_has(session, each) for each in asked.statuses))
        and all(held.get(key) == value for key, value in asked.user_metadata.items())
        and _is_named(asked, session["id"], about["display_name"] or "")
    )


def _has(session: Row, status: _Status) -> bool:
    held = texts.loads(session["status"])
    reason = held.get("reason", {}).get("type")
    return held["type"] == status.type and (status.reasons is None or reason in status.reasons)


def _is_named(asked: _Search, id_: str, name: str) -> bool:
    """Tell whether a session has the id or the words of a search; one that gives neither means all."""
    if asked.session_id is None and asked.display_name is None:
        return True
    words = (asked.display_name or "").casefold().split()
    return id_ == asked.session_id or bool(words and all(word in name.casefold() for word in words))


async def _summary(journal: Journal, session: Row) -> dict[str, Any]:
    about = texts.loads(session["about"])
    query = (
        "SELECT count(*) AS count, sum(checkpoints.size) AS size FROM checkpoints"
        " JOIN models ON models.id = checkpoints.run WHERE models.session = ?"
    )
    counted = await journal.row(query, session["id"])
    return {
        "session_id": session["id"],
        "created_at": _time(session["created"]),
        "owner": _urn(session),
        "project_id": _project(about),
        "status": texts.loads(session["status"]),
        "checkpoints_count": counted["count"] if counted else 0,
        "display_name": about["display_name"],
        "user_metadata": _metadata(about),
        "checkpoint_storage_bytes": int(counted["size"]) if counted and counted["size"] is not None else None,
    }


def _cursor(session: Row) -> dict[str, str]:
    return {"last_created_at": _time(session["created"]), "last_session_id": session["id"]}


def _urn(session: Row) -> str:
    return f"tml:user:{session['tenant']}"


def _project(about: dict[str, Any]) -> str:
    return str(about["project_id"] or "default")


def _metadata(about: dict[str, Any]) -> dict[str, str] | None:
    of = about["user_metadata"]
    return {key: value if isinstance(value, str) else texts.dumps(value) for key, value in of.items()} if of else None


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
