"""`backup` and `restore` of `muster sessions`."""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.sessions.cli.texts import clean, count, moment
from muster.sessions.journal.store import Journal

if TYPE_CHECKING:
    from argparse import _SubParsersAction

__all__ = ["add", "backup", "restore"]


def add(commands: _SubParsersAction[Any]) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Add the commands."""
    what = "copy the journal into a file, also while its Gateway serves"
    saving = commands.add_parser("backup", help=what, allow_abbrev=False)
    saving.add_argument("file", type=Path, metavar="FILE", help="the copy, which is made and never overwritten")
    what = "have a copy take the place of the journal, while no Gateway runs"
    restoring = commands.add_parser("restore", help=what, allow_abbrev=False)
    restoring.add_argument("file", type=Path, metavar="FILE", help="the copy, as `backup` has made it")
    return saving, restoring


async def backup(journal: Journal, args: argparse.Namespace) -> int:
    """Copy an open journal."""
    from muster.sessions.runs import backups  # noqa: PLC0415  # the other commands need no weights

    now = time.time()
    size = await backups.backup(journal, args.root, args.file, now)
    print(f"{args.file}: the journal as of {moment(now)}, {size:,} bytes, looked through")
    return 0


def restore(args: argparse.Namespace) -> int:
    """Restore a journal, and say what is lost."""
    from muster.sessions.runs import backups  # noqa: PLC0415  # as above

    done = asyncio.run(backups.restore(args.journal, args.root.resolve(), args.file, time.time()))
    at = moment(done.saved)
    print(f"restored: the journal as of {at}; what was done since then is not in it")
    print(f"keys: those made since {at} are unknown, and those revoked since then are valid again: see `keys ls`")
    for session in done.ended:
        print(f"ended: session {clean(session)}, which was open; it goes on in a new one, from weights that were saved")
    for path in done.lost:
        print(f"deleted: {clean(path, 400)}, whose weights were deleted after the backup")
    if done.aside.exists():
        print(f"set aside: the journal from before and {count(done.moved, 'folder', 'folders')} of weights that the")
        print(f"  restored one does not know, in {done.aside}")
    return 0
