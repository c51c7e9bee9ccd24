"""Entries of the journal: a request has the number that the client gave it, and is answered once.

What is promised: a request that was accepted is executed once in the order of its numbers, whichever process dies, or
ends as failed; sent again, it is the same request.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.sessions.journal.store import ChangedError, Connection, Row, digest

__all__ = [
    "REFUSED",
    "REFUSED_STEP",
    "UNLOADED",
    "UNMADE",
    "Request",
    "accept",
    "finish",
    "forget",
    "given_up",
    "is_known",
    "next_of",
    "promise",
    "skip",
    "unload",
]

UNLOADED = "the model was unloaded before this request"
UNMADE = "the model could not be made; the failure of its creation says why"
REFUSED = "refused"
"""The kind of a request that was refused when it came, of which only its number is of use."""
REFUSED_STEP = "refused_step"
"""The kind of such a forward or backward pass: what was sent before it may come later, as with other passes."""

_LOCKED = "UPDATE models SET done = done WHERE id = ? RETURNING done, unloaded"
"""Reads a model and keeps its row until the end of the transaction, in words that SQLite knows as well."""

_OTHERS = (
    "SELECT 1 FROM requests WHERE target = ? AND seq > ? AND state = 'waiting'"
    " AND kind NOT IN ('forward', 'forward_backward', 'refused_step') LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a model or a sampling session.

    Attributes:
        tenant: whose it is.
        target: id of the model or the sampling session.
        seq: its number there.
        kind: such as `forward_backward`.
        body: as it came.
    """

    tenant: str
    target: str
    seq: int
    kind: str
    body: bytes

    @property
    def id(self) -> str:
        """The id that the client waits with: sent again, a request has the same."""
        return f"{self.target}:{self.seq}"


def accept(connection: Connection, request: Request, now: float) -> bool:
    """Keep a request; False when it is there already.

    Raises:
        ChangedError: when another request has the number.
    """
    new = connection.execute(
        "INSERT INTO requests (id, tenant, target, seq, kind, digest, body, state, created, size)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?) ON CONFLICT DO NOTHING",
        (
            request.id,
            request.tenant,
            request.target,
            request.seq,
            request.kind,
            digest(request.body),
            request.body,
            now,
            len(request.body),
        ),
    ).rowcount
    if new:
        return True
    if not is_known(connection, request):
        raise ChangedError(f"seq_id {request.seq} of {request.target} was used before for another request")
    return False


def is_known(connection: Connection, request: Request) -> bool:
    """Tell whether a request is there already."""
    known = connection.execute("SELECT kind, digest FROM requests WHERE id = ?", (request.id,)).fetchone()
    return known is not None and tuple(known) == (request.kind, digest(request.body))


def promise(connection: Connection, request: Request, now: float) -> bool:
    """Keep a request of a model, as `accept` does; one that the model will never come to fails in the same moment."""
    # Before it is kept: another Gateway may just have the model go on without it, or unload it.
    model = connection.execute(_LOCKED, (request.target,)).fetchone()
    if not accept(connection, request, now):
        return False
    if model["unloaded"] is not None:
        given_up(connection, request.id, UNLOADED, "user", now)
    elif request.seq <= model["done"]:
        given_up(connection, request.id, "this request came after the model had gone on without it", "server", now)
    return True


def skip(connection: Connection, target: str) -> int:
    """Have a model go on with the first request that waits, and return the last number before it."""
    done = connection.execute(_LOCKED, (target,)).fetchone()["done"]
    query = "SELECT min(seq) FROM requests WHERE target = ? AND seq > ? AND state = 'waiting'"
    (first,) = connection.execute(query, (target, done)).fetchone()
    through = int(done if first is None else first - 1)
    connection.execute("UPDATE models SET done = ? WHERE id = ?", (through, target))
    return through


def finish(connection: Connection, id_: str, result: bytes, form: str, now: float) -> bool:
    """Keep the result of a request; False when it has ended before."""
    done = "UPDATE requests SET state = 'done', result = ?, form = ?, finished = ? WHERE id = ? AND state = 'waiting'"
    return bool(connection.execute(done, (result, form, now, id_)).rowcount)


def given_up(connection: Connection, id_: str, text: str, category: str, now: float) -> None:
    """Keep that a request failed; its body is of no use any more."""
    connection.execute(
        "UPDATE requests SET state = 'failed', result = ?, category = ?, body = NULL, finished = ?"
        " WHERE id = ? AND state = 'waiting'",
        (text.encode(), category, now, id_),
    )


def next_of(connection: Connection, target: str, after: int) -> tuple[Row | None, bool]:
    """Return what waits first for a target and has a number above another, without its body.

    Also tell whether its number is not the next one although something waits that is not a forward or backward pass.
    """
    query = (
        "SELECT id, seq, kind, created FROM requests WHERE target = ? AND seq > ? AND state = 'waiting'"
        " ORDER BY seq LIMIT 1"
    )
    first: Row | None = connection.execute(query, (target, after)).fetchone()
    if first is None or first["seq"] == after + 1:
        return first, False
    return first, connection.execute(_OTHERS, (target, after)).fetchone() is not None


def forget(connection: Connection, target: str, through: int) -> None:
    """Drop the bodies of what a snapshot holds."""
    connection.execute(
        # PostgreSQL writes a row anew even where nothing of it changes.
        "UPDATE requests SET body = NULL WHERE target = ? AND seq <= ? AND state <> 'waiting' AND body IS NOT NULL",
        (target, through),
    )


def unload(connection: Connection, model: str, now: float, why: str = UNLOADED) -> list[str]:
    """Keep that a model is unloaded, and return the requests that waited for it, which fail."""
    connection.execute("UPDATE models SET unloaded = ? WHERE id = ? AND unloaded IS NULL", (now, model))
    query = "SELECT id FROM requests WHERE target = ? AND state = 'waiting'"
    waiting = [str(row[0]) for row in connection.execute(query, (model,)).fetchall()]
    for id_ in waiting:
        given_up(connection, id_, why, "user", now)
    connection.execute("UPDATE requests SET body = NULL WHERE target = ? AND body IS NOT NULL", (model,))
    connection.execute("DELETE FROM layouts WHERE target = ?", (model,))
    return waiting
