"""What happened to a tenant's sessions and checkpoints, for himself to read; no prompt, token or key is in it."""

from __future__ import annotations

import secrets
from typing import Any

import orjson

from sessions.journal.store import Journal, Row

__all__ = ["CATEGORIES", "between", "note", "read"]

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


async def note(journal: Journal, tenant: str, event: str, now: float, **details: Any) -> None:
    """Keep an event.

    Args:
        journal: which keeps it.
        tenant: who may read it.
        event: RESOURCE_ACTION.
        now: when, in seconds since 1970.
        details: what it was about; values are JSON, and None is left out.
    """
    told = orjson.dumps({key: value for key, value in details.items() if value is not None}).decode()
    await journal.execute(_INSERT, secrets.token_hex(12), tenant, now, event, told)
    if journal.heard is not None:
        journal.heard(tenant, event, now, details)


async def read(journal: Journal, checkpoint: Row, tenant: str, purpose: str, now: float) -> None:
    """Keep that a tenant read a checkpoint, and tell its owner where that is another."""
    about = {"tinker_path": checkpoint["path"], "purpose": purpose, "user": f"tml:user:{tenant}"}
    for each in dict.fromkeys((tenant, str(checkpoint["tenant"]))):
        await note(journal, each, "checkpoint_read", now, **about)


async def between(journal: Journal, tenant: str, start: float, end: float, category: str) -> list[Row]:
    """Return a tenant's events of a time, the last ones, in their order."""
    query = (
        "SELECT * FROM events WHERE tenant = ? AND at >= ? AND at < ? AND substr(event, 1, ?) = ?"
        " ORDER BY at DESC, id LIMIT ?"
    )
    begins = CATEGORIES[category]
    rows = await journal.rows(query, tenant, start, end, len(begins), begins, MOST)
    return rows[::-1]
