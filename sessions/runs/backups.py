"""Backups of a journal, and what follows from a restored one for the sessions and weights that there are.

A journal that is restored knows nothing of what was done since its backup. Sessions that were open then are ended,
because their clients have gone on: one that were answered would train on weights without its last steps, and nobody
would notice. Weights that the journal does not know are set aside, and checkpoints whose weights are gone are deleted.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from muster.sessions.journal import dumps, entries, integrity
from muster.sessions.journal.places import journal_at
from muster.sessions.journal.sqlite import SqliteJournal
from muster.sessions.journal.store import Connection, Journal
from muster.sessions.runs import completions, endings, leftovers
from muster.sessions.runs.locks import locked

__all__ = ["Restored", "backup", "restore"]

_WHY = "the journal was restored from a backup of {}; begin a new session, from weights that were saved until then"
_PARTS = ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "journal.sqlite-open")
_NEVER = 1e9  # seconds


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a restored journal.

    Attributes:
        id: of the journal.
        saved: when its backup was made, in seconds since 1970.
        ended: sessions that were open then.
        lost: paths of checkpoints whose weights are gone.
        aside: folder of what the journal does not know, and of the journal that was there before.
        moved: how many folders of weights are there.
    """

    id: str
    saved: float
    ended: tuple[str, ...]
    lost: tuple[str, ...]
    aside: Path
    moved: int


async def backup(journal: Journal, root: Path, file: Path, now: float) -> int:
    """Write all that an open journal has at one moment into a new file, look through it, and return its bytes.

    Raises:
        FileExistsError: where there is a file of that name.
        ValueError: when the copy cannot be read, and where the folder had another journal.
    """
    if await asyncio.to_thread(file.exists):
        raise FileExistsError(f"{file}: is there already, and stays as it is; take another name")
    id_ = await integrity.check(journal, root)
    with _beside(file) as beside:
        with closing(_opened(beside)) as made:
            if journal.is_shared:
                await journal.run(dumps.dump, made)
            else:
                await asyncio.to_thread(_copied, root / _PARTS[0], made)
            made.execute("UPDATE identity SET saved = ?", (now,))
            made.execute("PRAGMA journal_mode = DELETE")  # so that it is one file
        if (await asyncio.to_thread(_facts, beside))[0] != id_:
            raise ValueError(f"{file}: the copy is not that of the journal; try again")
        return await asyncio.to_thread(_moved, beside, file)


async def restore(place: str | None, root: Path, file: Path, now: float) -> Restored:
    """Have a backup take the place of a journal, of which nothing is overwritten.

    Args:
        place: URL of a PostgreSQL database whose journal is empty; None for SQLite.
        root: folder of the Gateway, with its weights, by its full path.
        file: the backup.
        now: seconds since 1970.

    Raises:
        ValueError: while a Gateway runs, where the file is no backup or is that of another Gateway, and where a
            database has a journal.
        AwayError: when the database does not answer.
    """
    id_, saved = await asyncio.to_thread(_facts, file)
    why = _WHY.format(datetime.fromtimestamp(saved, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    aside = root / f"replaced-{datetime.fromtimestamp(now, UTC).strftime('%Y%m%dT%H%M%SZ')}-{secrets.token_hex(2)}"
    with locked(root / "run"), _beside(root / _PARTS[0]) as beside:
        with closing(_opened(beside)) as made, closing(_read(file)) as source:
            await asyncio.to_thread(source.backup, made)
        restored = SqliteJournal(beside)
        await restored.open()
        try:
            told = await restored.run(integrity.rise, root)
            await integrity.check(restored, root)
            await restored.run(leftovers.rebase, root)
            ended = await _ended(restored, now, why)
            lost = await leftovers.missing(restored)
            for row in lost:
                await endings.delete(restored, row, now)
            unknown = await leftovers.unknown(restored, root)
        finally:
            await restored.close()
        await _placed(
            place, root, beside, lambda: _set_aside((*unknown, *(root / each for each in _PARTS)), root, aside)
        )
    await asyncio.to_thread(integrity.write, root, told)
    return Restored(id_, saved, ended, tuple(str(row["path"]) for row in lost), aside, len(unknown))


async def _placed(place: str | None, root: Path, beside: Path, before: Callable[[], None]) -> None:
    """Have a file take the place of the journal, last: whatever fails, the journal from before is in its place."""
    target = journal_at(place, root)
    if not target.is_shared:
        await asyncio.to_thread(before)
        await asyncio.to_thread(_moved, beside, root / _PARTS[0])
        return

    def loaded(connection: Connection, made: sqlite3.Connection) -> None:
        dumps.load(connection, made)
        before()

    await target.open()
    try:
        with closing(_opened(beside)) as made:
            await target.run(loaded, made)
    finally:
        await target.close()


async def _ended(journal: Journal, now: float, why: str) -> tuple[str, ...]:
    """End what was open when the backup was made, with all that waits for it, and return the sessions."""
    sessions = [str(row["id"]) for row in await journal.rows("SELECT id FROM sessions WHERE ended IS NULL ORDER BY id")]
    for session in sessions:
        await endings.end(journal, session, {"type": "cancelled", "detail": why}, now)
    for row in await journal.rows("SELECT id FROM models WHERE unloaded IS NULL"):
        await journal.run(entries.unload, row["id"], now, why)
    for row in await journal.rows("SELECT id FROM requests WHERE state = 'waiting' AND kind = 'sample'"):
        await journal.run(completions.failed, row["id"], why, "user", now)
    return tuple(sessions)


def _facts(file: Path) -> tuple[str, float]:
    """Return the id of a backup and its time. Raises `ValueError` for what is none, or cannot be read whole."""
    try:
        with closing(_read(file)) as made:
            (found,) = made.execute("PRAGMA quick_check(1)").fetchone()
            id_, saved = made.execute("SELECT id, saved FROM identity").fetchone()
    except (sqlite3.Error, TypeError) as error:
        found, id_, saved = str(error), "", 0.0
    if found != "ok" or saved is None:
        why = " ".join(found.split())[:200] if found != "ok" else "it is a journal itself"
        raise ValueError(f"{file}: is no backup that can be read ({why}); take another one of `muster sessions backup`")
    return str(id_), float(saved)


def _read(file: Path) -> sqlite3.Connection:
    """Open a file, of which nothing is changed and which is not made."""
    return sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, check_same_thread=False)


def _opened(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, isolation_level=None, check_same_thread=False)


def _copied(file: Path, made: sqlite3.Connection) -> None:
    """Copy a file that others may be writing, as it is at one moment."""
    with closing(_read(file)) as source:
        source.backup(made)


@contextmanager
def _beside(file: Path) -> Iterator[Path]:
    """Make an empty file beside another, which only its owner may read; nothing of it is left."""
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    beside.touch(mode=0o600, exist_ok=False)
    try:
        yield beside
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            beside.with_name(beside.name + end).unlink(missing_ok=True)


def _moved(beside: Path, file: Path) -> int:
    """Give a whole file its name, have the name on disk, and return the bytes of the file."""
    beside.rename(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return file.stat().st_size


def _set_aside(some: Iterable[Path], root: Path, aside: Path) -> None:
    """Move files and folders of the root, where they are there, to the same places below another folder."""
    for each in some:
        if each.exists():
            to = aside / each.relative_to(root)
            to.parent.mkdir(parents=True, exist_ok=True)
            each.rename(to)
