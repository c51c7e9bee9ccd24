"""The journal in SQLite: one file, one connection, one thread; every change is on disk before it is answered."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sessions.journal.store import LATER, Connection, Journal

__all__ = ["SqliteJournal"]

P = ParamSpec("P")
T = TypeVar("T")


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
        # FULL: what was answered is kept through a loss of power as well, not only through the end of the process.
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "busy_timeout = 10000"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.executescript(resources.files(__package__).joinpath("schema.sql").read_text())
        for table, name, form in LATER:
            if name not in {row["name"] for row in self._connection.execute(f"PRAGMA table_info({table})")}:
                self._connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {form}")

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
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            answer = change(self._connection, *args, **named)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # some errors have ended it
                self._connection.execute("ROLLBACK")
            raise
        return answer
