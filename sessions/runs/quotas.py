"""How much a tenant may have and ask for, and what is said to one who has it.

What can be counted is counted in the journal, so that all Gateways of one journal count the same; a count and what
follows from it are one transaction, in which no other counts for the same tenant.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.sessions.journal.entries import Request
from muster.sessions.journal.store import Connection
from muster.sessions.refusals import Refused
from muster.sessions.runs.counts import Counts
from muster.sessions.tenancy import Share

__all__ = [
    "BusyError",
    "Quota",
    "Quotas",
    "has_room",
    "hold",
    "model",
    "read",
    "record",
    "request",
    "session",
    "stored",
]

_MOST = 2**53
_Count = Annotated[int, Field(ge=1, le=_MOST)]
_HOLD = "INSERT INTO tenants (id) VALUES (?) ON CONFLICT (id) DO UPDATE SET id = excluded.id"
_SESSIONS = "SELECT count(*) FROM sessions WHERE tenant = ? AND ended IS NULL"
_MODELS = (
    "SELECT count(*) FROM models JOIN sessions ON sessions.id = models.session"
    " WHERE sessions.tenant = ? AND sessions.ended IS NULL AND models.unloaded IS NULL"
)
_STORED = (
    "SELECT sum(size) FROM (SELECT folder, max(size) AS size FROM checkpoints"
    " WHERE tenant = ? AND path <> ? AND folder <> ? GROUP BY folder) AS folders"
)
_RECORDS = (
    "SELECT (SELECT count(*) FROM sessions WHERE tenant = ?)"
    " + (SELECT count(*) FROM models JOIN sessions ON sessions.id = models.session WHERE tenant = ?)"
    " + (SELECT count(*) FROM samplers JOIN sessions ON sessions.id = samplers.session WHERE tenant = ?)"
    " + (SELECT count(*) FROM checkpoints WHERE tenant = ?)"
)
_WAITING = "SELECT count(*) FROM requests WHERE tenant = ? AND state = 'waiting'"
_KEPT = "SELECT count(*), sum(size) FROM requests WHERE tenant = ? AND body IS NOT NULL"
_GOES = "SELECT 1 FROM requests WHERE tenant = ? AND body IS NOT NULL AND kind = 'optim_step' LIMIT 1"
"""A step that was done, whose snapshot is on its way: with it the passes before it go."""
_AWAITED = (
    "SELECT 1 FROM models WHERE id = ? AND done + 1 = ? AND EXISTS"
    " (SELECT 1 FROM requests WHERE target = models.id AND seq > models.done + 1 AND state = 'waiting')"
)
"""A request without which others of its model do not go on, such as the first chunk of a call, which comes last."""
_GROWS = frozenset({"forward", "forward_backward", "sample"})
"""Kinds of requests whose bodies are large; the others are few, and some of them have bodies go."""
_ASK = "or ask who runs this Gateway for more"


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Quota(_Closed):
    """What one tenant may have; the defaults are far above what one person uses.

    Attributes:
        requests_per_second: that each Gateway takes in the long run, without polls and heartbeats; beyond it 429.
        burst: requests that it takes at once.
        waiting_requests: that are accepted and not yet answered; beyond it 429.
        polls: that wait at once at each Gateway; beyond it 429.
        arriving_bodies: bodies of requests that each Gateway receives at once; beyond it 429.
        arriving_bytes: of such bodies, also when they are unpacked, until their requests are answered; beyond it 429.
        reading_bodies: large ones that each Gateway reads or that wait for that; beyond it 429.
        kept_requests: bodies in the journal: requests that wait, and passes since the last step of the optimizer.
        kept_bytes: of these bodies.
        result_bytes: of results that can be fetched; beyond it the oldest go first.
        open_sessions: that have not ended.
        models: of open sessions that are not unloaded.
        checkpoint_bytes: of all checkpoints; copies share theirs.
        records: sessions, models, sampling sessions and checkpoints that can be looked up, also those that have ended.
        weight: of the tenant where others wait as well: with 2 he has two turns where others have one.
    """

    requests_per_second: float = Field(default=500.0, gt=0, le=1e6)
    burst: _Count = 5000
    waiting_requests: _Count = 4096
    polls: _Count = 8192
    arriving_bodies: _Count = 1024
    arriving_bytes: _Count = 1 << 30
    reading_bodies: _Count = 1024
    kept_requests: _Count = 16_384
    kept_bytes: _Count = 16 << 30
    result_bytes: _Count = 16 << 30
    open_sessions: _Count = 1000
    models: _Count = 1000
    checkpoint_bytes: _Count = 1 << 40
    records: _Count = 200_000
    weight: float = Field(default=1.0, ge=0.01, le=100)


class Quotas(_Closed):
    """The quotas of all tenants.

    Attributes:
        default: of a tenant without one of his own.
        tenants: what is different for some of them, by their names.
    """

    default: Quota = Quota()
    tenants: dict[str, Quota] = Field(default_factory=dict, max_length=10_000)

    def of(self, tenant: str) -> Quota:
        """Return the quota of a tenant."""
        return self.tenants.get(tenant, self.default)

    def share(self, tenant: str) -> Share:
        """Return what a tenant has beside others."""
        return Share(tenant, self.of(tenant).weight)


def read(path: Path) -> Quotas:
    """Return the quotas in a file of TOML: a table `default`, and a table `tenants.NAME` for who has others.

    Raises:
        ValueError: when it is not such a file; the text says where.
        OSError: when it cannot be read.
    """
    try:
        given = tomllib.loads(path.read_text())
        return Quotas.model_validate(_merged(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"--limits: {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"--limits: {path}: is not TOML: {error}") from error


def _merged(given: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the default in each tenant's table, where that says nothing else."""
    default, tenants = given.get("default", {}), given.get("tenants", {})
    if not isinstance(default, dict) or not isinstance(tenants, dict):
        return given
    own = {name: {**default, **table} if isinstance(table, dict) else table for name, table in tenants.items()}
    return {**given, "tenants": own}


class BusyError(Exception):
    """A tenant has as many requests as he may; one that is sent again later may find room."""


def request(connection: Connection, quota: Quota, asked: Request, counts: Counts | None = None) -> None:
    """Look at what a tenant has with a request that was just kept.

    Args:
        connection: of the journal, in the transaction that has kept it.
        quota: of its tenant.
        asked: the request.
        counts: what tenants have at most, where no other Gateway has the journal.

    Raises:
        BusyError: for one too many, where others wait, which may make room.
        Refused: where nothing but the tenant's own steps makes room.
    """
    limits = {"kept": quota.kept_requests, "total": quota.kept_bytes, "waiting": quota.waiting_requests}
    if counts is not None and counts.fits(asked.tenant, len(asked.body), **limits):
        return
    if counts is not None and asked.kind in _GROWS and (why := counts.lacks(asked.tenant)):
        if connection.execute(_AWAITED, (asked.target, asked.seq)).fetchone():
            return
        raise BusyError(why)
    try:
        _counted(connection, quota, asked, counts)
    except (BusyError, Refused) as error:
        if counts is not None:
            counts.full(asked.tenant, str(error))
        raise


def _counted(connection: Connection, quota: Quota, asked: Request, counts: Counts | None) -> None:
    """Do what `request` does, by counting."""
    count, size = connection.execute(_KEPT, (asked.tenant,)).fetchone()
    size = size or 0
    if counts is not None:
        counts.counted(asked.tenant, count, size, min(count, quota.waiting_requests))
    if count <= min(quota.waiting_requests, quota.kept_requests) and size <= quota.kept_bytes:
        return  # what waits is among what is kept
    if connection.execute(_AWAITED, (asked.target, asked.seq)).fetchone():
        return
    waiting = connection.execute(_WAITING, (asked.tenant,)).fetchone()[0]
    if counts is not None:
        counts.counted(asked.tenant, count, size, waiting)
    if waiting > quota.waiting_requests:
        raise BusyError(f"waiting_requests: {quota.waiting_requests} of your requests wait, as many as may")
    for name, has, most in (("kept_requests", count, quota.kept_requests), ("kept_bytes", size, quota.kept_bytes)):
        if has > most and asked.kind in _GROWS:
            told = f"{name}: your requests would have {has}, and {most} may be kept"
            if waiting > 1 or connection.execute(_GOES, (asked.tenant,)).fetchone():
                raise BusyError(told)
            raise Refused(f"{told}; send less at once, or an optim_step for the passes before, {_ASK}")


def hold(connection: Connection, tenant: str) -> None:
    """Have no other count for the tenant before the end of this transaction, in which it comes before other rows."""
    connection.execute(_HOLD, (tenant,))


def record(connection: Connection, tenant: str, quota: Quota, more: int = 0) -> None:
    """Look at the records of a tenant, of whom nobody else counts any, after some were added; not where none was.

    Args:
        connection: of the journal, in the transaction that has added them.
        tenant: whose they are.
        quota: of the tenant.
        more: that are going to be added.

    Raises:
        Refused: when there are more than may be kept.
    """
    hold(connection, tenant)
    count = int(connection.execute(_RECORDS, (tenant,) * 4).fetchone()[0]) + more
    if count > quota.records:
        raise Refused(
            f"records: you would have {count} sessions, models, sampling sessions and checkpoints, and"
            f" {quota.records} may be kept; delete checkpoints, whose sessions go some time after their end, {_ASK}"
        )


def session(connection: Connection, tenant: str, quota: Quota) -> None:
    """Have no other count for the tenant in this transaction. Raises `Refused` when he has all sessions he may have."""
    record(connection, tenant, quota, 1)
    count = _count(connection, _SESSIONS, tenant)
    if count >= quota.open_sessions:
        raise Refused(
            f"open_sessions: {count} of your sessions are open, and {quota.open_sessions} may be; end one, {_ASK}"
        )


def model(connection: Connection, tenant: str, quota: Quota) -> None:
    """Have no other count for the tenant in this transaction. Raises `Refused` when he has all models he may have."""
    record(connection, tenant, quota, 1)
    count = _count(connection, _MODELS, tenant)
    if count >= quota.models:
        raise Refused(f"models: {count} of your models are loaded, and {quota.models} may be; unload one, {_ASK}")


def has_room(connection: Connection, tenant: str, quota: Quota, path: str, folder: str, size: int) -> None:  # noqa: PLR0913  # what a checkpoint is made of
    """Have no other count for the tenant in this transaction.

    Args:
        connection: of the journal, in a transaction.
        tenant: whose checkpoint it is.
        quota: of the tenant.
        path: of the checkpoint, whose earlier weights go when it is kept.
        folder: of its weights, which count once.
        size: bytes that it has, or that it is thought to have.

    Raises:
        Refused: when the tenant's checkpoints would have more bytes than they may.
    """
    held = stored(connection, tenant, path, folder)
    if held + size > quota.checkpoint_bytes:
        raise Refused(
            f"checkpoint_bytes: your checkpoints have {held} bytes, this one has {size}, and"
            f" {quota.checkpoint_bytes} may be kept; delete some, {_ASK}"
        )


def stored(connection: Connection, tenant: str, path: str = "", folder: str = "") -> int:
    """Return the bytes of a tenant's checkpoints without that at a path and those in a folder."""
    hold(connection, tenant)
    return int(connection.execute(_STORED, (tenant, path, folder)).fetchone()[0] or 0)


def _count(connection: Connection, query: str, tenant: str) -> int:
    hold(connection, tenant)
    return int(connection.execute(query, (tenant,)).fetchone()[0])
