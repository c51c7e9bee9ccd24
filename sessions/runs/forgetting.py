"""Records that nobody looks up any more: they go, so that a journal does not grow for ever."""

from __future__ import annotations

from sessions.journal.store import Connection, Journal

__all__ = ["answers", "records"]

_MOST = 1000  # sessions that go in one turn
_OVER = (
    "SELECT id FROM sessions WHERE ended < ? AND NOT EXISTS (SELECT 1 FROM checkpoints JOIN models"
    " ON models.id = checkpoints.run WHERE models.session = sessions.id) ORDER BY ended LIMIT ?"
)
_OF = "(SELECT id FROM models WHERE session = ? UNION ALL SELECT id FROM samplers WHERE session = ?)"
_PARTS = (
    *(f"DELETE FROM {table} WHERE target IN {_OF}" for table in ("requests", "layouts", "steps")),  # noqa: S608  # no value in it
    f"DELETE FROM completions WHERE sampler IN {_OF}",  # noqa: S608  # as above
)


async def answers(journal: Journal, before: float) -> None:
    """Forget results that ended before a time, and the ends of samples that had them."""
    old = "DELETE FROM requests WHERE state <> 'waiting' AND finished < ? AND body IS NULL"
    if await journal.execute(old, before):
        await journal.execute(
            "DELETE FROM completions WHERE NOT EXISTS (SELECT 1 FROM requests WHERE requests.id = completions.request)"
        )


async def records(journal: Journal, before: float) -> int:
    """Forget events, usage and steps from before a time, and sessions that ended before it and keep no checkpoint.

    Returns:
        How many sessions went; more may be left where it is 1,000.
    """
    await journal.execute("DELETE FROM events WHERE at < ?", before)
    await journal.execute("DELETE FROM usage WHERE hour < ?", before)
    await journal.execute("DELETE FROM steps WHERE at < ?", before)
    over = await journal.rows(_OVER, before, _MOST)
    for row in over:
        await journal.run(_forgotten, row["id"])
    return len(over)


def _forgotten(connection: Connection, session: str) -> None:
    for statement in _PARTS:
        connection.execute(statement, (session, session))
    for table in ("samplers", "models"):
        connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608  # no value in it
    connection.execute("DELETE FROM sessions WHERE id = ?", (session,))
