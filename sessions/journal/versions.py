"""Versions of the journal: one that an earlier Muster made is brought forward in one transaction, before it is used.

`schema.sql` says what a journal is now. A version is what was done to journals that were there before: columns that
tables lack, and statements on rows. Tables and indexes that are missing come from the schema. To change the journal,
change the schema and add a version; what is in `VERSIONS` stays as it is.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources

from muster.sessions.journal.store import Connection

__all__ = ["VERSIONS", "Version", "forward", "statements"]

Columns = Callable[[Connection, str], set[str]]
"""Returns the names of the columns of a table; none where there is no such table."""


@dataclass(frozen=True, slots=True)
class Version:
    """What brings a journal forward by one.

    Attributes:
        columns: that are added where their table lacks them: table, name and type with its default.
        rows: statements that are run when all tables are there.
    """

    columns: Sequence[tuple[str, str, str]] = ()
    rows: Sequence[str] = ()


VERSIONS = (
    # Journals without a number are of many commits, so any of these may be there already.
    Version(
        columns=(
            ("keys", "scopes", "TEXT NOT NULL DEFAULT 'train,sample,read,admin'"),
            ("keys", "expires", "REAL"),
            ("samplers", "answered", "INTEGER NOT NULL DEFAULT 0"),
        ),
        rows=("UPDATE requests SET body = NULL WHERE kind = 'sample' AND state <> 'waiting'",),
    ),
    Version(),  # indexes of requests
    Version(
        columns=(("requests", "size", "INTEGER NOT NULL DEFAULT 0"),),
        rows=("UPDATE requests SET size = length(body) WHERE body IS NOT NULL",),
    ),
    Version(),  # indexes of what tenants have
    Version(),  # identity, which `forward` draws
    Version(columns=(("identity", "number", "INTEGER NOT NULL DEFAULT 0"),)),
)
"""The first is that of journals without a number."""
_DRAW = "INSERT INTO identity (id) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM identity)"
_TABLE = "CREATE TABLE IF NOT EXISTS versions (number INTEGER NOT NULL)"


def forward(
    connection: Connection,
    columns: Columns,
    form: Callable[[str], str] = str,
    versions: Sequence[Version] = VERSIONS,
) -> bool:
    """Make the tables, or bring those of an earlier version forward; False when there is nothing to do.

    Args:
        connection: in a transaction that no other does this in at the same time.
        columns: tells which columns a table has.
        form: writes a statement with the types of the database.
        versions: all there are.

    Raises:
        ValueError: for a journal of a newer Muster, of which nothing is changed.
    """
    connection.execute(form(_TABLE))
    number = int(connection.execute("SELECT max(number) FROM versions").fetchone()[0] or 0)
    if number > len(versions):
        raise ValueError(
            f"the journal is of version {number}, and this program knows those up to {len(versions)};"
            " use the Muster that wrote it, or a newer one"
        )
    if number == len(versions):
        return False
    for each in versions[number:]:
        for table, name, kind in each.columns:
            if name not in (there := columns(connection, table)) and there:
                connection.execute(form(f"ALTER TABLE {table} ADD COLUMN {name} {kind}"))
    for statement in (*statements(), *(row for each in versions[number:] for row in each.rows)):
        connection.execute(form(statement))
    connection.execute(_DRAW, (secrets.token_hex(16),))
    connection.execute("DELETE FROM versions")
    connection.execute("INSERT INTO versions (number) VALUES (?)", (len(versions),))
    return True


def statements() -> list[str]:
    """Return the statements of `schema.sql`."""
    text = re.sub(r"--.*", "", resources.files(__package__).joinpath("schema.sql").read_text())
    return [each.strip() for each in text.split(";") if each.strip()]
