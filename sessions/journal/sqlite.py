"""The journal in SQLite: one file; one thread changes it, and every change is on disk before it is answered.

What waits while the disk is at work is kept by the next transaction together, because a disk takes as long for one
change as for many. Each change has a savepoint there, so one that fails takes nothing else back. Other threads
read at the same time (WAL), so a reader does not wait for the disk. Tenants take turns at both.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from muster.sessions.fairness import Fair
from muster.sessions.journal import versions
from muster.sessions.journal.store import AwayError, Connection, DamagedError, Journal
from muster.sessions.tenancy import SHARE

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
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_RESTORE = "restore a backup with `muster sessions restore`"
_LOSS = (
    "{log}: is gone, cut or older than it was, and with it what the Gateway wrote last, which did not end by itself;"
    " put the files of the journal back, restore a backup with `muster sessions restore`, or remove {note} to begin"
    " without it"
)
_NUMBERS = 2**31  # of transactions, after which they begin again
_MOST = 64  # changes of one transaction, so that the first of them is answered soon
_BESIDE = 16  # the same where several tenants have changes
_READERS = 2
_WAIT = "busy_timeout = 10000"


@dataclass(slots=True)
class _Job:
    """A change, or a read, that waits."""

    change: Callable[[sqlite3.Connection], Any]
    answer: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Raised:
    """What a change raised, where it was taken back."""

    error: Exception


class _EndedError(Exception):
    """A transaction ended before all of its changes were made."""


class _Connection(sqlite3.Connection):
    """A connection that knows the number of the last transaction that changed the file: its `user_version`."""

    number = 0


class SqliteJournal(Journal):
    """A journal in one file, for one Gateway."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._waiting: Fair[_Job] = Fair()
        self._connection: _Connection | None = None
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="journal-reader")
        self._reading: Fair[_Job] = Fair()
        self._own = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._log, self._note = (file.with_name(file.name + end) for end in ("-wal", "-open"))
        self._noted: int | None = None  # a descriptor of the note, whose text is the number of the last transaction
        self._number = 0  # of the file, by which one that was removed or exchanged is noticed

    async def open(self) -> None:
        """Open the file, and make it when there is none."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    def _open(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        noted = self._note.read_text(errors="replace") if self._file.exists() and self._note.exists() else ""
        self._connection = sqlite3.connect(self._file, isolation_level=None, factory=_Connection)
        self._connection.row_factory = sqlite3.Row
        with _told(self._file):
            # FULL: what was answered is kept through a loss of power as well, not only through the end of the process.
            for pragma in (_WAIT, "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
            _transacted(self._connection, functools.partial(versions.forward, columns=_columns))
        if noted.isdecimal() and (int(noted) - self._connection.number) % _NUMBERS in range(1, _NUMBERS // 2):
            raise ValueError(_LOSS.format(log=self._log, note=self._note))
        self._number = self._file.stat().st_ino

    async def check(self, seconds: float) -> bool:
        """Look whether all pages of the file are what they should be, as `Journal.check` says."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._check, seconds)

    def _check(self, seconds: float) -> bool:
        if self._connection is None:
            raise RuntimeError("the journal is not open")
        late = threading.Timer(seconds, self._connection.interrupt)
        late.start()
        try:
            with _told(self._file):
                (found,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return False
        finally:
            late.cancel()
        if found != "ok":
            raise _damaged(self._file, " ".join(found.split()))
        return True

    async def close(self) -> None:
        """Close the file; what runs ends first."""
        await asyncio.to_thread(self._readers.shutdown)
        for each in self._opened:
            each.close()
        if self._connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close, self._connection)
        self._thread.shutdown()

    def _close(self, connection: sqlite3.Connection) -> None:
        connection.close()
        if self._noted is not None:
            os.close(self._noted)
            self._note.unlink(missing_ok=True)

    async def mark_open(self) -> None:
        """Keep a file beside it, as `Journal.mark_open` says: it has the number of the last transaction."""
        self._noted = await asyncio.to_thread(os.open, self._note, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _tell(self, number: int) -> None:
        """Note a transaction that is on disk. The note is not: a loss of power leaves an earlier number."""
        if self._noted is not None:
            with suppress(OSError):  # an earlier number refuses nothing
                os.pwrite(self._noted, b"%010d" % number, 0)

    async def run(self, change: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Run a function on the connection, one after the other.

        It may run again where all that it did was taken back, because of another one beside it.
        """
        connection = self._usable()
        job = _Job(lambda connection: change(connection, *args, **named))
        self._waiting.put(SHARE.get(), "", job)
        self._thread.submit(self._turn, connection)
        answer: T = await asyncio.wrap_future(job.answer)
        return answer

    async def read(self, look: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Run a function on a connection that changes nothing, beside changes and a few other reads."""
        self._usable()
        job = _Job(lambda connection: look(connection, *args, **named))
        self._reading.put(SHARE.get(), "", job)
        self._readers.submit(self._look)
        answer: T = await asyncio.wrap_future(job.answer)
        return answer

    def _usable(self) -> _Connection:
        if self._connection is None:
            raise RuntimeError("the journal is not open")
        if self.damage:
            raise DamagedError(self.damage)
        return self._connection

    def _turn(self, connection: _Connection) -> None:
        """Run what waits now; nothing when an earlier turn has run it."""
        jobs = [job for job in self._next() if job.answer.set_running_or_notify_cancel()]
        answers: Iterable[Any] = [self._lost()] * len(jobs)
        if self._is_there():
            answers = _together(connection, jobs) or map(_alone(connection), jobs)
        for job, told in zip(jobs, answers, strict=True):
            self._tell(connection.number)
            self._answer(job, told)

    def _look(self) -> None:
        """Run the read whose turn it is, on the connection of this thread."""
        taken = self._reading.take()
        if taken is None:
            return
        share, job = taken
        self._reading.spent({share.tenant: 1})
        if job.answer.set_running_or_notify_cancel():
            self._answer(job, _tried(lambda: _seen(self._reader(), job.change)) if self._is_there() else self._lost())

    def _answer(self, job: _Job, told: Any) -> None:
        if not isinstance(told, _Raised):
            job.answer.set_result(told)
            return
        if isinstance(told.error, DamagedError):
            self.damage = str(told.error)
        job.answer.set_exception(told.error)

    def _reader(self) -> sqlite3.Connection:
        """Return the connection of this thread."""
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
            connection.row_factory = sqlite3.Row
            for pragma in (_WAIT, "query_only = ON"):
                connection.execute(f"PRAGMA {pragma}")
            self._own.connection = connection
            self._opened.append(connection)
        return connection

    def _lost(self) -> _Raised:
        return _Raised(_damaged(self._file, "it was emptied, exchanged or removed"))

    def _is_there(self) -> bool:
        """Tell whether what is written now will be found again."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return False
        except OSError:  # whatever is asked of it will say the same
            return True
        return found.st_ino == self._number and found.st_size > 0

    def _next(self) -> Iterator[_Job]:
        """Take what one transaction keeps."""
        most = _MOST
        for number in range(_MOST):
            if number >= most or (taken := self._waiting.take()) is None:
                return
            share, job = taken
            self._waiting.spent({share.tenant: 1})
            if not self._waiting.is_alone(share.tenant):
                most = _BESIDE
            yield job


def _together(connection: _Connection, jobs: Sequence[_Job]) -> list[Any]:
    """Make changes in one transaction; nothing is kept, and nothing returned, where each has to be tried alone."""
    if len(jobs) < 2:
        return []
    try:
        return _transacted(connection, lambda within: [_tried(functools.partial(_saved, within, job)) for job in jobs])
    except (sqlite3.DatabaseError, _EndedError):
        return []


def _alone(connection: _Connection) -> Callable[[_Job], Any]:
    return lambda job: _tried(functools.partial(_transacted, connection, job.change))


def _tried(do: Callable[[], Any]) -> Any:
    """Return what a change returns, or what it raised."""
    try:
        with _told():
            return do()
    except _EndedError:
        raise
    except Exception as error:  # noqa: BLE001  # whoever asked gets it
        return _Raised(error)


def _saved(connection: sqlite3.Connection, job: _Job) -> Any:
    """Make a change within a transaction that goes on without it when it fails."""
    connection.execute("SAVEPOINT job")
    try:
        answer = job.change(connection)
    except Exception as error:
        if not connection.in_transaction:  # some errors have ended it
            raise _EndedError from error
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        raise
    connection.execute("RELEASE job")
    return answer


def _transacted(connection: _Connection, change: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        before = connection.total_changes
        answer = change(connection)
        (number,) = connection.execute("PRAGMA user_version").fetchone()
        if connection.total_changes != before:
            number = (number + 1) % _NUMBERS
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
        connection.number = number
    except BaseException:
        if connection.in_transaction:  # some errors have ended it
            connection.execute("ROLLBACK")
        raise
    return answer


def _seen(connection: sqlite3.Connection, look: Callable[[sqlite3.Connection], T]) -> T:
    """Run a read on the rows of one moment."""
    connection.execute("BEGIN")
    try:
        return look(connection)
    finally:
        if connection.in_transaction:  # some errors have ended it
            connection.execute("ROLLBACK")


@contextmanager
def _told(file: Path | None = None) -> Iterator[None]:
    """Raise `AwayError` for faults that pass, `DamagedError` for others, and `ValueError` for what is no journal."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if why := _PASSING.get(code):
            raise AwayError(f"the journal takes nothing: {why}") from error
        if file is not None and code == sqlite3.SQLITE_NOTADB:
            raise ValueError(f"{file}: is not the journal of a Gateway; {_RESTORE}, or take another --root") from error
        if code in _DAMAGED:
            raise _damaged(file, str(error)) from error
        if str(error).startswith("Could not decode"):  # of Python, without a code; it quotes what is there
            raise _damaged(file, "a text is none") from None
        raise
    except UnicodeDecodeError:
        if file is not None:  # what SQLite says of damaged tables quotes their names
            raise _damaged(file, "a name is none") from None
        raise


def _damaged(file: Path | None, why: str) -> DamagedError:
    return DamagedError(f"{file or 'the journal'}: is damaged ({why[:200]}); {_RESTORE}")


def _columns(connection: Connection, table: str) -> set[str]:
    return {row["name"] for row in connection.execute(f"PRAGMA table_info({table})").fetchall()}
