"""Ends of samples in their order, so that a client can ask for all that ended since it asked last.

The number of an end is given in the transaction of the end, under the row of its sampling session: whoever has seen a
number has seen all below it.
"""

from __future__ import annotations

from typing import Any

from muster.sessions.journal import entries
from muster.sessions.journal.store import Journal, Row
from muster.sessions.runs import usage

__all__ = ["CLONE", "answered", "failed", "since"]

CLONE = 1_000_000_000
"""Numbers of requests that each clone of a sampling client has (tinker 0.38.0, `SamplingClient`)."""
_MOST = 1000  # ends in one answer
_WAITS = "SELECT target, seq FROM requests WHERE id = ? AND state = 'waiting'"
_NUMBER = "UPDATE samplers SET answered = answered + 1 WHERE id = ? RETURNING answered"
_INSERT = (
    "INSERT INTO completions (sampler, clone, number, request, size) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)


def answered(connection: Any, id_: str, result: bytes, used: usage.Used, now: float) -> None:
    """Keep the result of a sample, what it used and that it ended; nothing happens when it has ended before.

    Args:
        connection: of the journal, in a transaction.
        id_: of the request.
        result: a `SampleResponse`.
        used: by this request.
        now: seconds since 1970.
    """
    waits = connection.execute(_WAITS, (id_,)).fetchone()
    if waits is None:
        return
    entries.finish(connection, id_, result, "protobuf", now)
    connection.execute("UPDATE requests SET body = NULL WHERE id = ?", (id_,))
    usage.note(connection, waits["target"], used, now)
    _end(connection, id_, waits, len(result))


def failed(connection: Any, id_: str, text: str, category: str, now: float) -> None:
    """Keep that a sample failed, and that it ended; nothing happens when it has ended before."""
    waits = connection.execute(_WAITS, (id_,)).fetchone()
    if waits is None:
        return
    entries.given_up(connection, id_, text, category, now)
    _end(connection, id_, waits, None)


def _end(connection: Any, id_: str, waits: Row, size: int | None) -> None:
    row = connection.execute(_NUMBER, (waits["target"],)).fetchone()
    if row is not None:
        connection.execute(_INSERT, (waits["target"], waits["seq"] // CLONE, row["answered"], id_, size))


async def since(journal: Journal, sampler: str, clone: int, cursor: int) -> list[Row]:
    """Return the next ends after a cursor, with their numbers; all of them when no end has the number of the cursor."""
    query = (
        "SELECT request, number, size FROM completions WHERE sampler = ? AND clone = ? AND number >"
        " (SELECT CASE WHEN answered < ? THEN 0 ELSE ? END FROM samplers WHERE id = ?) ORDER BY number LIMIT ?"
    )
    return await journal.rows(query, sampler, clone, cursor, cursor, sampler, _MOST)
