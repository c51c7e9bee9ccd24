"""Ends of sessions and checkpoints, by whoever asks for them: a client, the reaper or an operator's command.

An end and its event are one transaction, so neither is kept without the other, and of two who end a thing one does.
"""

from __future__ import annotations

import json
from typing import Any

from muster.sessions.journal.store import Connection, Journal, Row
from muster.sessions.runs import events, weights

__all__ = ["EVER", "delete", "end", "expire"]

EVER = 1e300
"""Seconds since 1970: after everything."""


async def end(journal: Journal, session: str, status: dict[str, Any], now: float, silent: float = EVER) -> bool:
    """End a session; its Gateway frees what it holds within seconds.

    Args:
        journal: which has it.
        session: that ends.
        status: that it has from now on.
        now: seconds since 1970.
        silent: nothing happens when it was heard of since then.

    Returns:
        False when there is none, or it has ended.
    """
    kept = await journal.run(_ended, session, status, now, silent)
    events.tell(journal, *kept)
    return bool(kept)


def _ended(
    connection: Connection, session: str, status: dict[str, Any], now: float, silent: float
) -> list[events.Event]:
    update = "UPDATE sessions SET ended = ?, status = ? WHERE id = ? AND ended IS NULL AND seen < ? RETURNING tenant"
    found = connection.execute(update, (now, json.dumps(status), session, silent)).fetchall()
    return [
        events.keep(connection, row["tenant"], "session_ended", now, session_id=session, status=status) for row in found
    ]


async def delete(journal: Journal, checkpoint: Row, now: float) -> None:
    """Delete a checkpoint; its weights go when no sampling session samples from them."""
    await _gone(journal, checkpoint["path"], now, "checkpoint_deleted", EVER, "OR expires IS NULL")


async def expire(journal: Journal, checkpoint: Row, now: float) -> None:
    """Delete a checkpoint, as `delete` does, if its time is over still."""
    await _gone(journal, checkpoint["path"], now, "checkpoint_expired", now)


async def _gone(journal: Journal, path: str, now: float, event: str, before: float, also: str = "") -> None:  # noqa: PLR0913  # what an end is made of
    folders, kept = await journal.run(_deleted, path, now, event, before, also)
    events.tell(journal, *kept)
    for each in folders:
        await weights.remove(journal, each)


def _deleted(  # noqa: PLR0913  # as above
    connection: Connection, path: str, now: float, event: str, before: float, also: str
) -> tuple[list[str], list[events.Event]]:
    which = f"DELETE FROM checkpoints WHERE path = ? AND (expires < ? {also}) RETURNING folder, tenant"  # noqa: S608  # no value in it
    found = connection.execute(which, (path, before)).fetchall()
    kept = [events.keep(connection, row["tenant"], event, now, tinker_path=path) for row in found]
    return [str(row["folder"]) for row in found], kept
