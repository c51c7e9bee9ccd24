"""Folders of weights that a process left behind which died between two statements: nothing names them any more.

A folder has the number of its request. The request's end gives it a name in one transaction, and later names are copies
of one that is there. So what has no name when its request is over never gets one.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import unquote

from muster.sessions.journal.store import Connection, Journal, Row

__all__ = ["missing", "rebase", "sweep", "unknown"]

_KINDS = ("weights", "sampler_weights", "external_weights")
_NAMES = (("checkpoints", "folder"), ("samplers", "folder"), ("models", "inflight"), ("models", "inflight_old"))
_NAMED = " UNION ".join(f"SELECT {name} AS folder FROM {table} WHERE {name} IS NOT NULL" for table, name in _NAMES)  # noqa: S608  # no value in it
_NUMBER = re.compile(r"\.?(\d{1,18})(?:\.|$)")


async def sweep(journal: Journal, root: Path) -> list[Path]:
    """Remove what is left over, and return it. Runs that the journal does not know are left alone."""
    over = [each async for each in _over(journal, root)]
    # It is asked after it was seen which requests are over. Where the root was moved, names still end as folders do.
    named = {_end(str(row["folder"])) for row in await journal.rows(_NAMED)} if over else set()
    left = [each for each in over if _end(str(each)) not in named]
    for each in left:
        await asyncio.to_thread(shutil.rmtree, each, ignore_errors=True)
    return left


async def unknown(journal: Journal, root: Path) -> list[Path]:
    """Return all folders of weights that nothing names, also those of runs that the journal does not know."""
    runs = [run for kind in (*_KINDS, "snapshots") for run in _inside(root / kind)]
    named = {_end(str(row["folder"])) for row in await journal.rows(_NAMED)}
    return [each for run in runs for each in _inside(run) if _end(str(each)) not in named]


async def missing(journal: Journal) -> list[Row]:
    """Return the checkpoints whose folders are not there."""
    rows = await journal.rows("SELECT * FROM checkpoints ORDER BY path")
    return [row for row in rows if not await asyncio.to_thread(Path(row["folder"]).is_dir)]


def rebase(connection: Connection, root: Path) -> None:
    """Have all names be of folders below a root, where the root was another before."""
    for table, column in _NAMES:
        for row in connection.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL").fetchall():  # noqa: S608  # no value in it
            values = (str(root.joinpath(*_end(row[0]))), row[0])
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", values)  # noqa: S608  # as above


async def _over(journal: Journal, root: Path) -> AsyncIterator[Path]:
    """Yield folders of requests that are over."""
    for kind in (*_KINDS, "snapshots"):
        for run in await asyncio.to_thread(_inside, root / kind):
            model = await journal.row("SELECT done, snapshot, unloaded FROM models WHERE id = ?", unquote(run.name))
            for folder in await asyncio.to_thread(_inside, run) if model is not None else ():
                if model is not None and _is_over(kind, model, folder):
                    yield folder


def _end(folder: str) -> tuple[str, ...]:
    """Return the kind, the run and the number of a folder."""
    return Path(folder).parts[-3:]


def _inside(folder: Path) -> list[Path]:
    return sorted(_folders(folder)) if folder.is_dir() else []


def _folders(folder: Path) -> Iterator[Path]:
    return (each for each in folder.iterdir() if each.is_dir() and not each.is_symlink())


def _is_over(kind: str, model: Row, folder: Path) -> bool:
    found = _NUMBER.match(folder.name)
    if found is None:
        return False
    if model["unloaded"] is not None:
        return True
    number = int(found[1])
    return bool(number < model["snapshot"] if kind == "snapshots" else number <= model["done"])
