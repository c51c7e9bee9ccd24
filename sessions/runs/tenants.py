"""Tenants and their API keys, of which the journal has hashes only."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from muster.sessions.journal.store import Connection, Journal, Row

__all__ = ["SCOPES", "Key", "Right", "checked", "create", "named", "revoke", "right_of", "right_of_id", "rotate"]

SCOPES = ("train", "sample", "read", "admin")
_VALID = "revoked IS NULL AND (expires IS NULL OR expires > ?)"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_FORM = re.compile(r"tml-[A-Za-z0-9_-]{20,128}")


@dataclass(frozen=True, slots=True)
class Key:
    """A new key; `secret` is told once."""

    id: str
    secret: str


@dataclass(frozen=True, slots=True)
class Right:
    """What a valid key opens: the sessions of a tenant, for what its scopes say; `expires` in seconds since 1970."""

    id: str
    tenant: str
    scopes: frozenset[str]
    expires: float | None


def checked(scopes: str) -> str:
    """Return scopes as the journal has them. Raises `ValueError` for one that there is not."""
    asked = {each.strip() for each in scopes.split(",")}
    if not asked <= set(SCOPES):
        raise ValueError(f"--scopes: {scopes!r}: take some of {', '.join(SCOPES)}, with commas between them")
    return ",".join(each for each in SCOPES if each in asked)


def named(tenant: str) -> str:
    """Return the name of a tenant. Raises `ValueError` for one that no file of limits and no line could hold."""
    if not _NAME.fullmatch(tenant):
        told = "use letters, digits, dots, dashes, underscores and @, at most 64, and begin with a letter or digit"
        raise ValueError(f"TENANT: {tenant[:60]!r} is not a name; {told}")
    return tenant


async def create(
    journal: Journal, tenant: str, now: float, scopes: str = ",".join(SCOPES), expires: float | None = None
) -> Key:
    """Make a key of a tenant.

    Args:
        journal: where its hash is kept.
        tenant: whose sessions it opens.
        now: seconds since 1970.
        scopes: as `checked` returns them.
        expires: seconds since 1970; None for never.
    """
    return await journal.run(_created, tenant, now, scopes, expires)


def _created(connection: Connection, tenant: str, now: float, scopes: str, expires: float | None) -> Key:
    secret = f"tml-{secrets.token_urlsafe(32)}"
    key = Key(secret[:12], secret)
    connection.execute(
        "INSERT INTO keys (id, hash, tenant, created, scopes, expires) VALUES (?, ?, ?, ?, ?, ?)",
        (key.id, _hash(secret), tenant, now, scopes, expires),
    )
    return key


async def rotate(journal: Journal, id_: str, now: float, overlap: float) -> Key | None:
    """Make a key with the rights of another, which ends after an overlap; None when there is none, or it has ended.

    A key that was made for some time is followed by one that lives as long.
    """
    return await journal.run(_rotated, id_, now, overlap)


def _rotated(connection: Connection, id_: str, now: float, overlap: float) -> Key | None:
    old = connection.execute(f"SELECT * FROM keys WHERE id = ? AND {_VALID}", (id_, now)).fetchone()  # noqa: S608  # no value in it
    if old is None:
        return None
    ends = now + overlap if old["expires"] is None else min(old["expires"], now + overlap)
    connection.execute("UPDATE keys SET expires = ? WHERE id = ?", (ends, id_))
    expires = None if old["expires"] is None else now + old["expires"] - old["created"]
    return _created(connection, old["tenant"], now, old["scopes"], expires)


async def revoke(journal: Journal, id_: str, now: float) -> bool:
    """End a key; False when there is none, or it has ended."""
    return bool(await journal.execute("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", now, id_))


async def right_of(journal: Journal, secret: str, now: float) -> Right | None:
    """Return what a key opens; None when it is nobody's, or has ended."""
    if not _FORM.fullmatch(secret):
        return None
    return _right(await journal.row(f"SELECT * FROM keys WHERE hash = ? AND {_VALID}", _hash(secret), now))  # noqa: S608  # as above


async def right_of_id(journal: Journal, id_: str, now: float) -> Right | None:
    """Return what the key of an id opens; None when there is none, or it has ended."""
    return _right(await journal.row(f"SELECT * FROM keys WHERE id = ? AND {_VALID}", id_, now))  # noqa: S608  # as above


def _right(row: Row | None) -> Right | None:
    return Right(row["id"], row["tenant"], frozenset(row["scopes"].split(",")), row["expires"]) if row else None


def _hash(secret: str) -> str:
    """Return the hash of a key, whose 256 random bits need no salt and no slow function."""
    return hashlib.sha256(secret.encode()).hexdigest()
