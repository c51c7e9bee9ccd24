"""Whether a journal is the one that its Gateway had: an emptied or exchanged one looks like a new one without keys.

A journal has an id, which is drawn when it is made. The file `journal.id` in the Gateway's folder says which one
belongs to the weights there.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from muster.sessions.journal.store import Journal

__all__ = ["NAME", "check", "claim"]

NAME = "journal.id"

_OTHER = (
    "{file}: the journal is not the one that this Gateway had: it was emptied, exchanged or removed; restore a backup"
    " with `muster sessions restore`, or remove this file to begin with the journal that is there"
)


async def check(journal: Journal, root: Path) -> str:
    """Return the id of a journal. Raises `ValueError` where the file in a Gateway's folder has another."""
    row = await journal.row("SELECT id FROM identity")
    file = root / NAME
    id_ = str(row["id"]) if row else ""
    if await asyncio.to_thread(file.exists) and file.read_text().strip() != id_:
        raise ValueError(_OTHER.format(file=file))
    return id_


async def claim(journal: Journal, root: Path) -> None:
    """Have the file say which journal belongs to a Gateway's folder. Raises as `check` does."""
    id_ = await check(journal, root)
    await asyncio.to_thread(_written, root / NAME, id_)


def _written(file: Path, id_: str) -> None:
    """Write a file that appears whole, unless it is there."""
    if file.exists():
        return
    beside = file.with_name(f".journal.id.{os.getpid()}")
    beside.write_text(f"{id_}\n")
    beside.replace(file)
