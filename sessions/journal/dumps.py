"""All rows of a journal between PostgreSQL and an SQLite file, which is what a backup is, wherever the journal is.

So a backup needs neither programs of PostgreSQL nor one version of them, is looked through as any journal is, and can
be restored to either place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from muster.sessions.journal import versions
from muster.sessions.journal.store import Connection

__all__ = ["HELD", "dump", "load"]

HELD = 7_361_129_086
"""The advisory lock of PostgreSQL that all Gateways of a journal share while they serve."""
_LARGE = 8  # rows of requests in memory at once, whose bodies have up to 64 MiB
_SMALL = 1000
_NEITHER = ("leases",)
"""Says which Gateway of a database has the engines, and nothing of what it has done."""


def dump(connection: Connection, made: sqlite3.Connection) -> None:
    """Write all rows, as they are at one moment, into an empty SQLite file.

    Args:
        connection: to PostgreSQL, at the beginning of a transaction.
        made: the file.
    """
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # the file may be on a slow disk
    made.execute("BEGIN")
    for statement in versions.statements():
        made.execute(statement)
    for table, columns, marks in _tables(made):
        connection.execute(f"DECLARE every_row NO SCROLL CURSOR FOR SELECT {columns} FROM {table}")  # noqa: S608  # no value in it
        count = _LARGE if table == "requests" else _SMALL
        while rows := connection.execute(f"FETCH {count} FROM every_row").fetchall():
            made.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", map(tuple, rows))  # noqa: S608  # as above
        connection.execute("CLOSE every_row")
    made.execute("COMMIT")


def load(connection: Connection, made: sqlite3.Connection) -> None:
    """Write all rows of an SQLite file of this version into a journal in PostgreSQL.

    Args:
        connection: to PostgreSQL, in a transaction.
        made: the file.

    Raises:
        ValueError: while a Gateway serves with the journal, and where it has keys or sessions.
    """
    if not connection.execute("SELECT pg_try_advisory_xact_lock(?)", (HELD,)).fetchone()[0]:
        raise ValueError("--journal: a Gateway serves with this database; end it first")
    if connection.execute("SELECT 1 FROM keys UNION ALL SELECT 1 FROM sessions LIMIT 1").fetchone() is not None:
        raise ValueError(
            "--journal: this database has a journal with keys or sessions, which stays; make a new database"
        )
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # as above
    for table, columns, marks in _tables(made):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608  # no value in it
        for row in made.execute(f"SELECT {columns} FROM {table}"):  # noqa: S608  # as above
            connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(row))  # noqa: S608  # as above


def _tables(made: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    """Yield each table, its columns, and a mark for each; a table comes after those that it refers to."""
    for (table,) in made.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid").fetchall():
        if table not in _NEITHER:
            names = [row[1] for row in made.execute(f"PRAGMA table_info({table})")]
            yield table, ", ".join(names), ", ".join("?" * len(names))
