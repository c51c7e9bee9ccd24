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

from muster.sessions.journal.store import Journal, Row

__all__ = ["sweep"]

_KINDS = ("weights", "sampler_weights", "external_weights")
_NAMED = (
    "SELECT folder FROM checkpoints UNION SELECT folder FROM samplers WHERE folder IS NOT NULL"
    " UNION SELECT inflight FROM models WHERE inflight IS NOT NULL"
    " UNION SELECT inflight_old FROM models WHERE inflight_old IS NOT NULL"
)
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
