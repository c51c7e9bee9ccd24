"""Records that nobody looks up any more: they go, so that a journal does not grow for ever."""

from __future__ import annotations

from muster.sessions.journal.store import Connection, Journal
from muster.sessions.runs.quotas import Quotas

__all__ = ["answers", "records", "surplus"]

_MOST = 1000  # sessions that go in one turn
_MOST_RESULTS = 10_000  # results of one tenant that go in one turn
_OVER = (
    "SELECT id FROM sessions WHERE ended < ? AND NOT EXISTS (SELECT 1 FROM checkpoints JOIN models"
    " ON models.id = checkpoints.run WHERE models.session = sessions.id) ORDER BY ended LIMIT ?"
)
_OF = "(SELECT id FROM models WHERE session = ? UNION ALL SELECT id FROM samplers WHERE session = ?)"
_PARTS = (
    *(f"DELETE FROM {table} WHERE target IN {_OF}" for table in ("requests", "layouts", "steps")),  # noqa: S608  # no value in it
    f"DELETE FROM completions WHERE sampler IN {_OF}",  # noqa: S608  # as above
)


_RESULTS = "SELECT tenant, sum(length(result)) AS some FROM requests WHERE result IS NOT NULL GROUP BY tenant"
_SIZES = (
    "SELECT finished, length(result) AS size FROM requests WHERE tenant = ? AND result IS NOT NULL AND body IS NULL"
    " ORDER BY finished LIMIT ?"
)
_OLDEST = "DELETE FROM requests WHERE tenant = ? AND state <> 'waiting' AND finished <= ? AND body IS NULL"
_UNNAMED = "DELETE FROM completions WHERE NOT EXISTS (SELECT 1 FROM requests WHERE requests.id = completions.request)"


async def answers(journal: Journal, before: float) -> None:
    """Forget results that ended before a time, and the ends of samples that had them."""
    old = "DELETE FROM requests WHERE state <> 'waiting' AND finished < ? AND body IS NULL"
    if await journal.execute(old, before):
        await journal.execute(_UNNAMED)


async def surplus(journal: Journal, quotas: Quotas) -> list[str]:
    """Forget the oldest results of tenants who have more of them than they may, and return who they are.

    Results of passes since the last step of the optimizer stay: these run again from what is kept of them.
    """
    over = []
    for row in await journal.rows(_RESULTS):
        if (much := row["some"] - quotas.of(row["tenant"]).result_bytes) > 0:
            over.append(str(row["tenant"]))
            await _let_go(journal, row["tenant"], much)
    if over:
        await journal.execute(_UNNAMED)
    return over


async def _let_go(journal: Journal, tenant: str, much: int) -> None:
    """Forget the oldest results of a tenant, until so many bytes are gone; the rest goes in the next turn."""
    last = None
    for row in await journal.rows(_SIZES, tenant, _MOST_RESULTS):
        if much <= 0:
            break
        much, last = much - row["size"], row["finished"]
    if last is not None:
        await journal.execute(_OLDEST, tenant, last)


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
