"""What handlers share: the manager of runs, who calls, and looking up what is his."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from aiohttp import web

from muster.sessions.gateway.answers import MissingError
from muster.sessions.gateway.tokens import Tokens
from muster.sessions.journal import entries
from muster.sessions.journal.store import Connection, Row
from muster.sessions.runs import quotas
from muster.sessions.runs.manager import Manager

__all__ = ["MANAGER", "TOKENS", "accepted", "caller", "new_id", "own_model", "own_sampler", "own_session"]

MANAGER: web.AppKey[Manager] = web.AppKey("manager", Manager)
TOKENS: web.AppKey[Tokens] = web.AppKey("tokens", Tokens)


def caller(request: web.Request) -> str:
    """Return the tenant, whom `gateway.doors` has found."""
    return str(request["tenant"])


def new_id() -> str:
    """Return an id that nobody can guess."""
    return secrets.token_hex(12)


async def own_session(request: web.Request, id_: str) -> Row:
    """Return a session of the caller. Raises `MissingError`."""
    query = "SELECT * FROM sessions WHERE id = ? AND tenant = ?"
    return await _own(request, query, "session", id_)


async def own_model(request: web.Request, id_: str) -> Row:
    """Return a model of the caller. Raises `MissingError`."""
    query = (
        "SELECT models.*, sessions.tenant, sessions.ended, sessions.status FROM models"
        " JOIN sessions ON sessions.id = models.session WHERE models.id = ? AND sessions.tenant = ?"
    )
    return await _own(request, query, "model", id_)


async def own_sampler(request: web.Request, id_: str) -> Row:
    """Return a sampling session of the caller. Raises `MissingError`."""
    query = (
        "SELECT samplers.*, sessions.ended FROM samplers"
        " JOIN sessions ON sessions.id = samplers.session WHERE samplers.id = ? AND sessions.tenant = ?"
    )
    return await _own(request, query, "sampling session", id_)


async def _own(request: web.Request, query: str, what: str, id_: str) -> Row:
    found = "\0" not in id_  # which PostgreSQL takes for a fault
    row = await request.app[MANAGER].context.journal.row(query, id_, caller(request)) if found else None
    if row is None:
        raise MissingError(f"{id_[:200]}: there is no such {what}, or it is not yours")
    return row


async def accepted(
    request: web.Request,
    asked: entries.Request,
    keep: Callable[[Connection, entries.Request, float], bool] = entries.accept,
) -> bool:
    """Keep a request in the journal; False when it is there already.

    Raises:
        ChangedError: when its number was used before for another request.
        HTTPTooManyRequests: when too many of the tenant's requests wait.
        Refused: when the tenant has more passes than he may, and nothing that waits makes room.
    """
    context = request.app[MANAGER].context
    quota = context.config.quotas.of(asked.tenant)

    def change(connection: Connection) -> bool:
        new = keep(connection, asked, context.clock())
        if new:
            quotas.request(connection, quota, asked, None if context.journal.is_shared else context.counts)
        return new

    try:
        return await context.journal.run(change)
    except quotas.BusyError as error:
        told = f"{error}; send this one again later"
        raise web.HTTPTooManyRequests(text=told, headers={"Retry-After": "1"}) from error
