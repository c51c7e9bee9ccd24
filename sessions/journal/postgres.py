"""The journal in PostgreSQL, which several Gateways may share: a function is one transaction, on one of a few threads.

psycopg 3 is the driver, because functions of the journal are plain functions on a connection: asyncpg (Apache-2.0) has
coroutines only, and pg8000 (BSD-3, pure Python) can neither give up a statement after a time nor wait for notices with
one. Transactions are READ COMMITTED: an accepted request is one INSERT that meets a unique number, and what executes
requests holds the row of the lease (`leases`), so no two transactions can both read what only one of them may change.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import resources
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg
from psycopg.adapt import Loader

from muster.backoffs import Backoff
from muster.sessions.fairness import Fair
from muster.sessions.journal import dumps, versions
from muster.sessions.journal.store import AwayError, Connection, DamagedError, Journal
from muster.sessions.refusals import Refused
from muster.sessions.tenancy import SHARE

__all__ = ["PATIENCE", "Link", "PostgresJournal"]

_LOG = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
PATIENCE = 15.0
"""Seconds that a statement may take; a server that is stopped but not gone answers nothing at all."""
_THREADS = 4
_QUIET = 10.0  # seconds without a notice after which the server is asked whether it is there
_CHANNEL = "muster_sessions"
_TYPES = {"REAL": "DOUBLE PRECISION", "INTEGER": "BIGINT", "BLOB": "BYTEA"}
_OPTIONS: dict[str, Any] = {
    "connect_timeout": 5,  # seconds
    "tcp_user_timeout": 10_000,  # milliseconds
    "keepalives_idle": 10,
    "application_name": "muster-gateway",
}
_DAMAGED = (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted, psycopg.errors.UndefinedTable)
_PAUSED = 5  # seconds between two statements of a transaction, which do nothing but speak with the server
_SETUP = 7_361_129_085  # the advisory lock under which one Gateway makes the tables


class Record:
    """A row: values by name or by number, as `sqlite3.Row` has them."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: tuple[str, ...], values: Sequence[Any]) -> None:
        self._names, self._values = names, tuple(values)

    def __getitem__(self, key: str | int, /) -> Any:
        return self._values[self._names.index(key) if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def keys(self) -> Sequence[str]:
        """Return the names."""
        return self._names


class _Sum(Loader):  # type: ignore[misc]  # psycopg is not among the tools of mypy
    """Sums of whole numbers are `numeric` in PostgreSQL, and whole numbers here."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class Link(psycopg.Connection[Record]):  # type: ignore[misc]  # as above
    """A connection that gives up: what takes longer than `PATIENCE` has lost its connection."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = PATIENCE) -> Any:
        """Wait for the server. Raises `psycopg.OperationalError`, and closes, when it fails or is silent."""
        try:
            return super().wait(gen, interval, timeout)
        except psycopg.OperationalError:
            self.pgconn.finish()
            raise


class _Statements:
    """The connection as functions of the journal know it: values stand as `?`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Record]:
        """Run a statement. Raises `Refused` for a value that PostgreSQL cannot hold."""
        if any(isinstance(each, str) and "\0" in each for each in values):
            raise Refused("the request holds a text with the character NUL; leave it out")
        return self._link.execute(_numbered(statement) if values else statement.encode(), values or None)


class PostgresJournal(Journal):
    """A journal in a PostgreSQL database.

    Args:
        url: `postgresql://…`, with what libpq takes after `?`, such as `sslmode` and `sslrootcert`.
    """

    is_shared = True

    def __init__(self, url: str) -> None:
        self.url = url
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="journal")
        self._waiting: Fair[tuple[Future[Any], Callable[[], Any]]] = Fair()
        self._own = threading.local()
        self._guard = threading.Lock()
        self._links: list[Link] = []

    async def open(self) -> None:
        """Connect, and have the tables of this version."""
        await self.run(_made)

    async def close(self) -> None:
        """Close the connections; what runs ends first."""
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)
        while (taken := self._waiting.take()) is not None:
            taken[1][0].cancel()
        for link in self._links:
            link.close()

    async def run(self, change: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Run a function on a connection in one transaction; a few run at a time."""
        answer: Future[T] = Future()
        self._waiting.put(SHARE.get(), "", (answer, functools.partial(self._run, change, args, named)))
        self._threads.submit(self._turn)
        return await asyncio.wrap_future(answer)

    def _turn(self) -> None:
        """Run what is next; tenants take turns."""
        taken = self._waiting.take()
        if taken is None:
            return
        share, (answer, work) = taken
        self._waiting.spent({share.tenant: 1})
        if not answer.set_running_or_notify_cancel():
            return
        try:
            told = work()
        except BaseException as error:  # noqa: BLE001  # whoever asked gets it
            answer.set_exception(error)
        else:
            answer.set_result(told)

    def _run(self, change: Callable[..., T], args: Sequence[Any], named: Mapping[str, Any]) -> T:
        link = self._link()
        try:
            with link.transaction():
                return change(_Statements(link), *args, **named)
        except psycopg.DataError as error:
            raise Refused(f"the request holds a value that cannot be kept: {type(error).__name__}") from error
        except psycopg.Error as error:
            if isinstance(error, _DAMAGED):
                told = (
                    f"the journal is damaged ({type(error).__name__}); restore a backup with `muster sessions restore`"
                )
                raise DamagedError(told) from error
            # One that was ended while it stood still, or was closed, says so by errors of several kinds.
            if isinstance(error, psycopg.OperationalError) or link.closed:
                raise AwayError(f"the journal does not answer: {type(error).__name__}") from error
            raise

    def _link(self) -> Link:
        """Return the connection of this thread, a new one when it was lost."""
        link: Link | None = getattr(self._own, "link", None)
        if link is None or link.closed:
            link = self._own.link = _linked(self.url)
            with self._guard:
                self._links = [each for each in self._links if not each.closed] + [link]
        return link

    async def watch(self, tell: Callable[[str | None], None]) -> None:
        """Tell what Gateways write, until it is cancelled; None when something may have been missed."""
        backoff = Backoff(base=0.4, cap=10.0, least=0.5)
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self.url, autocommit=True, **_OPTIONS) as link:
                    await link.execute(f"LISTEN {_CHANNEL}")
                    await link.execute(f"SELECT pg_advisory_lock_shared({dumps.HELD})")
                    backoff.reset()
                    tell(None)
                    await _listened(link, tell)
            except (psycopg.Error, OSError) as error:
                pause = backoff.delay()
                _LOG.warning("the journal tells nothing (%s); tried again in %.1f s", type(error).__name__, pause)
                await asyncio.sleep(pause)


async def _listened(link: psycopg.AsyncConnection[Any], tell: Callable[[str | None], None]) -> None:
    """Tell what comes, and look now and then whether the server is still there."""
    while True:
        async for notice in link.notifies(timeout=_QUIET):
            tell(notice.payload)
        async with asyncio.timeout(PATIENCE):
            await link.execute("SELECT 1")


def _linked(url: str) -> Link:
    link = _connected(url)
    link.adapters.register_loader("numeric", _Sum)
    # What was answered is kept: a server that is told to be quicker than its disk is told otherwise for these.
    link.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    # A Gateway that is paused within a transaction would keep its locks, and no other could take the lease.
    link.execute(f"SET idle_in_transaction_session_timeout = '{_PAUSED}s'")
    return link


def _connected(url: str) -> Link:
    """Connect. Raises `AwayError` with what libpq says, and `ValueError` for a URL, of which nothing is repeated."""
    try:
        link: Link = Link.connect(
            url, autocommit=True, cursor_factory=psycopg.RawCursor, row_factory=_rows_of, **_OPTIONS
        )
    except psycopg.OperationalError as error:
        raise AwayError(f"the journal does not answer: {' '.join(str(error).split())[:300]}") from error
    except psycopg.ProgrammingError:
        # What it says of a URL may quote its password.
        told = "is not a URL that PostgreSQL reads; write postgresql://USER@HOST/DATABASE?sslmode=verify-full"
        raise ValueError(f"--journal: {told}") from None
    return link


def _rows_of(cursor: psycopg.BaseCursor[Any, Any]) -> Callable[[Sequence[Any]], Record]:
    names = tuple(each.name for each in cursor.description or ())
    return lambda values: Record(names, values)


@functools.lru_cache(maxsize=1024)
def _numbered(statement: str) -> bytes:
    """Return a statement with `$1`, `$2`, … for `?`."""
    numbers = itertools.count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", statement).encode()


def _made(connection: Connection) -> None:
    """Make the tables, or bring them forward; one Gateway at a time, or two would do the same."""
    connection.execute("SELECT pg_advisory_xact_lock(?)", (_SETUP,))
    if versions.forward(connection, _columns, _typed):
        connection.execute(resources.files(__package__).joinpath("notices.sql").read_text())


def _typed(statement: str) -> str:
    return re.sub(r"\b(REAL|INTEGER|BLOB)\b", lambda found: _TYPES[found[0]], statement)


def _columns(connection: Connection, table: str) -> set[str]:
    query = (
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ?"
    )
    return {str(row[0]) for row in connection.execute(query, (table,)).fetchall()}
