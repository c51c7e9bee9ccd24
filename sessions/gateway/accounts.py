"""What a tenant did and used, from our own records: events, tokens by the hour, storage. Nothing here has a price."""

from __future__ import annotations

import json as texts
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from aiohttp import web

from muster.sessions.gateway import projects
from muster.sessions.gateway.answers import json
from muster.sessions.gateway.state import MANAGER, caller
from muster.sessions.journal.store import Row
from muster.sessions.runs import events, usage
from muster.sessions.seam import Refused

__all__ = ["routes"]

routes = web.RouteTableDef()
_LONGEST = timedelta(days=14)
_DAY = 86400.0  # seconds
_GIGABYTE = 1e9


@routes.get("/api/v1/audit")
async def audit(request: web.Request) -> web.Response:
    """Answer the caller's events of a day."""
    category = request.query.get("event_type", "all")
    if category not in events.CATEGORIES:
        raise Refused(f"event_type: {category[:60]!r}: use one of {', '.join(events.CATEGORIES)}")
    context = request.app[MANAGER].context
    start = datetime.combine(_day(request, context.clock()), time(), UTC).timestamp()
    found = await events.between(context.journal, caller(request), start, start + _DAY, category)
    return json({"entries": [_entry(each) for each in found]})


@routes.get("/api/v1/billing/usage/events")
async def usage_events(request: web.Request) -> web.Response:
    """Answer the caller's tokens and checkpoints by the hour."""
    context = request.app[MANAGER].context
    start, end = _hour(request, "starting_on"), _hour(request, "ending_before")
    if not timedelta() < end - start <= _LONGEST:
        raise Refused("ending_before: is not after starting_on, or more than 14 days after it")
    if start.timestamp() > context.clock():
        raise Refused("starting_on: is in the future")
    query = (
        "SELECT usage.* FROM usage JOIN sessions ON sessions.id = usage.session"
        " WHERE usage.tenant = ? AND usage.hour >= ? AND usage.hour < ?"
        " ORDER BY usage.hour, usage.amount DESC, usage.session, usage.kind"
    )
    rows = await context.journal.rows(query, caller(request), int(start.timestamp()), int(end.timestamp()))
    abouts = await projects.abouts(context.journal, (row["session"] for row in rows))
    sessions = {session: {"user_metadata": _metadata(about)} for session, about in abouts.items()}
    data = [_used(row, abouts[row["session"]]) for row in rows if row["session"] in abouts]
    return json({"data": data, "sessions": sessions, "cost_data_through": None})


@routes.get("/api/v1/billing/usage/checkpoints/current")
async def storage(request: web.Request) -> web.Response:
    """Answer how many checkpoints there are, and their bytes; copies share theirs."""
    tenant, only = caller(request), request.query.get("project_id")
    query = (
        "SELECT checkpoints.folder, checkpoints.size, models.session FROM checkpoints"
        " JOIN models ON models.id = checkpoints.run JOIN sessions ON sessions.id = models.session"
        " WHERE checkpoints.tenant = ?"
    )
    journal = request.app[MANAGER].context.journal
    rows, of = await journal.rows(query, tenant), await projects.projects(journal, tenant)
    stored: dict[str, list[Row]] = {}
    for row in rows:
        stored.setdefault(of.get(row["session"], "default"), []).append(row)
    data = [_stored(tenant, project, stored[project]) for project in sorted(stored) if only in {None, project}]
    return json({"effective_rate_usd_per_gigabyte_month": None, "data": data})


def _day(request: web.Request, now: float) -> date:
    asked = request.query.get("day")
    try:
        return date.fromisoformat(asked) if asked is not None else datetime.fromtimestamp(now, UTC).date()
    except ValueError as error:
        raise Refused("day: is not a date; write it as 2026-11-23") from error


def _hour(request: web.Request, name: str) -> datetime:
    try:
        at = datetime.fromisoformat(request.query.get(name, ""))
        whole = at.tzinfo is not None and at.timestamp() % usage.HOUR == 0
    except (ValueError, OverflowError):
        whole = False
    if not whole:
        raise Refused(f"{name}: is not the first second of an hour, with its time zone; write 2026-11-23T14:00:00Z")
    return at


def _entry(row: Row) -> dict[str, Any]:
    details = texts.loads(row["details"])
    old = ("tinker_path", "purpose", "model_id") if row["event"].startswith("checkpoint_") else ()
    path = details.get("tinker_path", "")
    of = {**details, "model_id": path.removeprefix("tinker://").partition("/")[0] or None}
    return {
        "timestamp": datetime.fromtimestamp(row["at"], UTC).isoformat(),
        "event": row["event"],
        "event_details": details,
        **{name: of.get(name) for name in old},
    }


def _used(row: Row, about: dict[str, Any]) -> dict[str, Any]:
    start = datetime.fromtimestamp(row["hour"], UTC)
    return {
        "bucket_start": start.isoformat(),
        "bucket_end": (start + timedelta(seconds=usage.HOUR)).isoformat(),
        "base_model": row["base"],
        "user_id": f"tml:user:{row['tenant']}",
        "user_name": row["tenant"],
        "session_id": row["session"],
        "project_id": about["project_id"],
        "event_info": dict(_info(row["kind"], row["amount"])),
    }


def _info(kind: str, amount: int) -> Iterator[tuple[str, Any]]:
    yield "type", kind
    yield ("count" if kind == "checkpoint" else "token_count"), amount
    if kind == "sampling_prefill":
        yield "cached", False


def _stored(tenant: str, project: str, rows: list[Row]) -> dict[str, Any]:
    size = sum({row["folder"]: row["size"] for row in rows}.values())
    return {
        "project_id": project,
        "org_user_urn": f"tml:user:{tenant}",
        "user_name": tenant,
        "checkpoint_count": len(rows),
        "size_bytes": size,
        "size_gigabytes": size / _GIGABYTE,
        "estimated_monthly_cost_usd": None,
    }


def _metadata(about: dict[str, Any]) -> dict[str, str] | None:
    of = about["user_metadata"]
    return {key: value if isinstance(value, str) else texts.dumps(value) for key, value in of.items()} if of else None
