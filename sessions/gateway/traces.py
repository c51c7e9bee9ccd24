"""The requests of a session over time, as JSON that Perfetto and `chrome://tracing` open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Any

import orjson

from muster.sessions.journal.store import Journal, Row

__all__ = ["trace"]

_MOST = 50_000  # requests; the last ones
_QUERY = (
    "SELECT id, target, seq, kind, state, created, finished FROM requests WHERE finished IS NOT NULL AND target IN"
    " (SELECT id FROM models WHERE session = ? UNION ALL SELECT id FROM samplers WHERE session = ?)"
    " ORDER BY finished DESC, id LIMIT ?"
)


async def trace(journal: Journal, session: str) -> bytes:
    """Return the trace of what the journal still has of a session, which is made beside the event loop.

    A request of a model begins when the one before it ended; samples are answered side by side. Times are microseconds.
    """
    return await asyncio.to_thread(_made, session, await journal.rows(_QUERY, session, session, _MOST))


def _made(session: str, rows: Sequence[Row]) -> bytes:
    ordered = sorted(rows, key=lambda row: (row["target"], row["finished"], row["seq"]))
    spans = (
        span
        for target, (_, of) in enumerate(groupby(ordered, key=lambda row: str(row["target"])), 1)
        for span in _track(target, list(of))
    )
    named = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": f"session {session}"}}
    # One after the other: the lock of the interpreter is let go between them.
    return b'{"displayTimeUnit":"ms","traceEvents":[%b]}' % b",".join(map(orjson.dumps, chain((named,), spans)))


def _track(number: int, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    at = {"pid": 1, "tid": number}
    yield {"name": "thread_name", "ph": "M", **at, "args": {"name": rows[0]["target"]}}
    before = 0.0
    for row in rows:
        start, before = max(row["created"], before), row["finished"]
        told = {"seq_id": row["seq"], "state": row["state"]}
        if row["kind"] == "sample":
            side = {"cat": "sample", "name": "sample", "id": row["id"], **at}
            yield {"ph": "b", "ts": _micro(row["created"]), **side, "args": told}
            yield {"ph": "e", "ts": _micro(row["finished"]), **side}
        else:
            waited = {"waited_ms": round(1e3 * (start - row["created"]), 3)}
            span = {"ph": "X", "ts": _micro(start), "dur": _micro(row["finished"]) - _micro(start)}
            yield {"name": row["kind"], "cat": "training", **span, **at, "args": told | waited}


def _micro(seconds: float) -> int:
    return round(seconds * 1e6)
