"""Ends of sessions and checkpoints, by whoever asks for them: a client, the reaper or an operator's command."""

from __future__ import annotations

import json
from typing import Any

from sessions.journal.store import Journal, Row
from sessions.runs import events, weights

__all__ = ["delete", "end"]


async def end(journal: Journal, session: str, status: dict[str, Any], now: float) -> bool:
    """End a session; False when there is none, or it has ended. Its Gateway frees what it holds within seconds."""
    update = "UPDATE sessions SET ended = ?, status = ? WHERE id = ? AND ended IS NULL"
    if not await journal.execute(update, now, json.dumps(status), session):
        return False
    owner = await journal.row("SELECT tenant FROM sessions WHERE id = ?", session)
    if owner is not None:
        await events.note(journal, owner["tenant"], "session_ended", now, session_id=session, status=status)
    return True


async def delete(journal: Journal, checkpoint: Row, now: float) -> None:
    """Delete a checkpoint; its weights go when no sampling session samples from them."""
    await journal.execute("DELETE FROM checkpoints WHERE path = ?", checkpoint["path"])
    await weights.remove(journal, checkpoint["folder"])
    told = {"tinker_path": checkpoint["path"]}
    await events.note(journal, checkpoint["tenant"], "checkpoint_deleted", now, **told)
