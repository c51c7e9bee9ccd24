"""The journal in SQLite: one file, one connection, one thread; every change is on disk before it is answered."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sessions.journal import versions
from sessions.journal.store import AwayError, Connection, Journal

__all__ = ["SqliteJournal"]

P = ParamSpec("P")
T = TypeVar("T")
_PASSING = {
    sqlite3.SQLITE_BUSY: "another process holds it",
    sqlite3.SQLITE_FULL: "its storage is full; make room",
    sqlite3.SQLITE_IOERR: "its storage fails; look at the disk",
    sqlite3.SQLITE_NOMEM: "there is no memory for it",
}
"""Faults of the storage, and not of the statement: the same may be kept later."""


class SqliteJournal(Journal):
    """A journal in one file, for one Gateway."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the file, and make it when there is none."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    def _open(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(self._file, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        with _told(self._file):
            # FULL: what was answered is kept through a loss of power as well, not only through the end of the process.
            for pragma in ("busy_timeout = 10000", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._transacted(self._connection, versions.forward, (_columns,), {})

    async def close(self) -> None:
        """Close the file; what runs ends first."""
        if self._connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown()

    async def run(self, change: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Run a function on the connection in one transaction, one after the other."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, change, args, named)

    def _run(self, change: Callable[..., T], args: Sequence[Any], named: Mapping[str, Any]) -> T:
        if self._connection is None:
            raise RuntimeError("the journal is not open")
        with _told():
            return self._transacted(self._connection, change, args, named)

    @staticmethod
    def _transacted(
        connection: sqlite3.Connection, change: Callable[..., T], args: Sequence[Any], named: Mapping[str, Any]
    ) -> T:
        connection.execute("BEGIN IMMEDIATE")
        try:
            answer = change(connection, *args, **named)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # some errors have ended it
                connection.execute("ROLLBACK")
            raise
        return answer


@contextmanager
def _told(file: Path | None = None) -> Iterator[None]:
    """Raise `AwayError` for faults that pass, and `ValueError` for a file that is no journal."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if why := _PASSING.get(code):
            raise AwayError(f"the journal takes nothing: {why}") from error
        if file is not None and code == sqlite3.SQLITE_NOTADB:
            raise ValueError(f"{file}: is not the journal of a Gateway; take another --root") from error
        raise


def _columns(connection: Connection, table: str) -> set[str]:
    return {row["name"] for row in connection.execute(f"PRAGMA table_info({table})").fetchall()}
