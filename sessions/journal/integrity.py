"""Whether a journal is the one that its Gateway had: an emptied or exchanged one looks like a new one without keys.

A journal has an id, which is drawn when it is made, and a number, which rises at each start and end of a Gateway. The
file `journal.id` in the Gateway's folder says which journal belongs to the weights there, and how far its number was.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

from muster.sessions.journal.store import Connection, Journal

__all__ = ["NAME", "check", "claim", "rise", "write"]

NAME = "journal.id"

_OTHER = (
    "{file}: the journal is not the one that this Gateway had: it was emptied, exchanged or removed; restore a backup"
    " with `muster sessions restore`, or remove this file to begin with the journal that is there"
)
_OLDER = (
    "{file}: the journal is older than the one that this Gateway had, and does not know what was done since; put the"
    " newer one back, restore a backup with `muster sessions restore`, or remove this file to begin with the older one"
)
_BACKUP = (
    "{file}: the journal is a backup that was copied here; move it out of this folder, and restore it with"
    " `muster sessions restore`"
)


async def check(journal: Journal, root: Path) -> str:
    """Return the id of a journal. Raises `ValueError` for a backup, and for another or older one than a file says."""
    file = root / NAME
    # Before the journal is asked: another Gateway that begins meanwhile makes both numbers larger.
    told, number = await asyncio.to_thread(_read, file)
    row = await journal.row("SELECT * FROM identity")
    id_ = str(row["id"]) if row else ""
    if told is not None and told != id_:
        raise ValueError(_OTHER.format(file=file))
    if row and row["saved"] is not None:
        raise ValueError(_BACKUP.format(file=root))
    if row and row["number"] < number:
        raise ValueError(_OLDER.format(file=file))
    return id_


async def claim(journal: Journal, root: Path) -> None:
    """Have a journal and the file say that a Gateway begins or ends here. Raises as `check` does."""
    await check(journal, root)
    await asyncio.to_thread(write, root, await journal.run(rise, root))


def rise(connection: Connection, root: Path) -> str:
    """Have a journal be newer than any that a Gateway's folder had, and return what its file is to say."""
    connection.execute("UPDATE identity SET saved = NULL, number = number + 1")  # and no other Gateway does meanwhile
    id_, number = connection.execute("SELECT id, number FROM identity").fetchone()
    if number <= (before := _read(root / NAME)[1]):
        number = before + 1
        connection.execute("UPDATE identity SET number = ?", (number,))
    return f"{id_} {number}"


def _read(file: Path) -> tuple[str | None, int]:
    """Return the id and the number; none and 0 where there is no file. A file of an earlier Muster has no number."""
    try:
        id_, _, number = file.read_text().strip().partition(" ")
    except FileNotFoundError:
        return None, 0
    return id_, int(number) if number.isdecimal() else 0


def write(root: Path, text: str) -> None:
    """Write the file of a Gateway's folder, which appears whole, and is so after a loss of power."""
    beside = root / f".{NAME}.{secrets.token_hex(4)}"
    try:
        with beside.open("w") as opened:
            opened.write(f"{text}\n")
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(root / NAME)
    finally:
        beside.unlink(missing_ok=True)
