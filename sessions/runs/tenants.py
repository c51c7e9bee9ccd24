"""Tenants and their API keys, of which the journal has hashes only."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from sessions.journal.store import Journal

__all__ = ["Key", "create", "id_of", "revoke", "tenant_of", "tenant_of_id"]

_FORM = re.compile(r"tml-[A-Za-z0-9_-]{20,128}")


@dataclass(frozen=True, slots=True)
class Key:
    """A new key; `secret` is told once."""

    id: str
    secret: str


async def create(journal: Journal, tenant: str, now: float) -> Key:
    """Make a key of a tenant."""
    secret = f"tml-{secrets.token_urlsafe(32)}"
    key = Key(secret[:12], secret)
    await journal.execute(
        "INSERT INTO keys (id, hash, tenant, created) VALUES (?, ?, ?, ?)", key.id, _hash(secret), tenant, now
    )
    return key


async def revoke(journal: Journal, id_: str, now: float) -> bool:
    """End a key; False when there is none, or it has ended."""
    return bool(await journal.execute("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", now, id_))


async def tenant_of(journal: Journal, secret: str) -> str | None:
    """Return whose key this is; None when it is nobody's."""
    if not _FORM.fullmatch(secret):
        return None
    row = await journal.row("SELECT tenant FROM keys WHERE hash = ? AND revoked IS NULL", _hash(secret))
    return row["tenant"] if row else None


async def id_of(journal: Journal, secret: str) -> str | None:
    """Return the id of a key; None when there is none."""
    row = await journal.row("SELECT id FROM keys WHERE hash = ?", _hash(secret))
    return row["id"] if row else None


async def tenant_of_id(journal: Journal, id_: str) -> str | None:
    """Return whose key has an id; None when it is nobody's, or has ended."""
    row = await journal.row("SELECT tenant FROM keys WHERE id = ? AND revoked IS NULL", id_)
    return row["tenant"] if row else None


def _hash(secret: str) -> str:
    """Return the hash of a key, whose 256 random bits need no salt and no slow function."""
    return hashlib.sha256(secret.encode()).hexdigest()
