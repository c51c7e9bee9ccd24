"""Where a journal is kept: a file beside the weights, or a PostgreSQL database that several Gateways share."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from muster.sessions.journal.sqlite import SqliteJournal
from muster.sessions.journal.store import Journal

__all__ = ["journal_at"]

_SCHEMES = ("postgresql://", "postgres://")


def journal_at(place: str | None, root: Path) -> Journal:
    """Return a journal, which is to be opened.

    Args:
        place: URL of a PostgreSQL database; None for SQLite.
        root: folder of the Gateway, where SQLite has its file.

    Raises:
        ValueError: for another URL, and where the driver is not installed.
    """
    if place is None:
        return SqliteJournal(root / "journal.sqlite")
    if not place.startswith(_SCHEMES):
        raise ValueError("--journal: is not a URL such as postgresql://USER@HOST/DATABASE; leave it out for SQLite")
    if importlib.util.find_spec("psycopg") is None:
        raise ValueError("--journal: a journal in PostgreSQL needs psycopg: pip install 'psycopg[binary]'")
    from muster.sessions.journal.postgres import PostgresJournal  # noqa: PLC0415  # only who has PostgreSQL has its driver

    return PostgresJournal(place)
