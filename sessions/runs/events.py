"""What happened to a tenant's sessions and checkpoints, for himself to read; no prompt, token or key is in it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from muster.sessions.journal.store import Connection, Journal, Row

__all__ = ["CATEGORIES", "Event", "between", "keep", "note", "read", "tell"]

CATEGORIES = {
    "all": "",
    "checkpoints": "checkpoint_",
    "projects": "project_",
    "teams": "team_",
    "organizations": "organization_",
}
"""What a caller may ask for, and how the events of it begin (tinker 0.38.0, `AdminClient.get_audit_log`)."""
MOST = 10_000
"""Events that are answered at once: the last ones."""
_INSERT = "INSERT INTO events (id, tenant, at, event, details) VALUES (?, ?, ?, ?, ?)"
_HOUR = 3600


class Event(NamedTuple):
    """What happened, to whose things, and when."""

    tenant: str
    name: str
    at: float
    details: Mapping[str, Any]


def keep(connection: Connection, tenant: str, event: str, now: float, /, **details: Any) -> Event:
    """Keep an event in the transaction of what happened; `tell` it when that is over. Arguments are those of `note`."""
    told = orjson.dumps({key: value for key, value in details.items() if value is not None}).decode()
    connection.execute(_INSERT, (secrets.token_hex(12), tenant, now, event, told))
    return Event(tenant, event, now, details)


def tell(journal: Journal, *kept: Event) -> None:
    """Tell whoever listens to a journal of events that are in it."""
    if journal.heard is not None:
        for each in kept:
            journal.heard(*each)


async def note(journal: Journal, tenant: str, event: str, now: float, **details: Any) -> None:
    """Keep an event.

    Args:
        journal: which keeps it.
        tenant: who may read it.
        event: RESOURCE_ACTION.
        now: when, in seconds since 1970.
        details: what it was about; values are JSON, and None is left out.
    """
    tell(journal, await journal.run(keep, tenant, event, now, **details))


async def read(journal: Journal, checkpoint: Row, tenant: str, purpose: str, now: float) -> None:
    """Keep that a tenant read a checkpoint, and tell its owner where that is another.

    Whoever reads it again for the same purpose within the hour adds no event, so that no number of reads makes a
    checkpoint's owner lose sight of what happened before them.
    """
    about = {"tinker_path": checkpoint["path"], "purpose": purpose, "user": f"tml:user:{tenant}"}
    kept = await journal.run(_keep_read, dict.fromkeys((tenant, str(checkpoint["tenant"]))), now, about)
    tell(journal, *kept)


def _keep_read(connection: Connection, readers: Iterable[str], now: float, about: dict[str, str]) -> list[Event]:
    told = orjson.dumps(about)
    hour = b"%d" % (now // _HOUR)
    kept = []
    for each in readers:
        name = hashlib.sha256(b"\0".join((each.encode(), hour, told))).hexdigest()[:24]
        values = (name, each, now, "checkpoint_read", told.decode())
        if connection.execute(f"{_INSERT} ON CONFLICT (id) DO NOTHING", values).rowcount:
            kept.append(Event(each, "checkpoint_read", now, about))
    return kept


async def between(journal: Journal, tenant: str, start: float, end: float, category: str) -> list[Row]:
    """Return a tenant's events of a time, the last ones, in their order."""
    query = (
        "SELECT * FROM events WHERE tenant = ? AND at >= ? AND at < ? AND substr(event, 1, ?) = ?"
        " ORDER BY at DESC, id LIMIT ?"
    )
    begins = CATEGORIES[category]
    rows = await journal.rows(query, tenant, start, end, len(begins), begins, MOST)
    return rows[::-1]
