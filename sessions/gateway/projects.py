"""What sessions say of themselves, read some at a time: a tenant may have very many, each with kilobytes of it."""

from __future__ import annotations

import json as texts
from collections.abc import Iterable
from typing import Any

from muster.sessions.journal.store import Journal
from muster.sessions.seam import Refused

__all__ = ["abouts", "project", "projects"]

_STEP = 100  # sessions of one query
_MOST = 64 << 20  # characters of one answer
_QUERY = "SELECT id, about FROM sessions WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?"


def project(about: dict[str, Any]) -> str:
    """Return the project of a session."""
    return str(about["project_id"] or "default")


async def projects(journal: Journal, tenant: str) -> dict[str, str]:
    """Return the project of each session of a tenant, by its id."""
    found: dict[str, str] = {}
    last = ""
    while rows := await journal.rows(_QUERY, tenant, last, _STEP):
        found |= {row["id"]: project(texts.loads(row["about"])) for row in rows}
        last = rows[-1]["id"]
    return found


async def abouts(journal: Journal, sessions: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what sessions say of themselves, by their ids.

    Raises:
        Refused: when that is more than one answer can have.
    """
    found: dict[str, dict[str, Any]] = {}
    size = 0
    ids = list(dict.fromkeys(sessions))
    for start in range(0, len(ids), _STEP):
        some = ids[start : start + _STEP]
        places = ", ".join("?" * len(some))
        for row in await journal.rows(f"SELECT id, about FROM sessions WHERE id IN ({places})", *some):  # noqa: S608  # no value in it
            size += len(row["about"])
            found[row["id"]] = texts.loads(row["about"])
        if size > _MOST:
            raise Refused(f"starting_on: the sessions of that time have more than {_MOST} bytes; ask for fewer hours")
    return found
