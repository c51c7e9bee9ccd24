"""What a journal is, wherever it is kept: functions run on it one transaction at a time; what was answered is on disk.

Statements are written once, for SQLite and for PostgreSQL: values stand as `?`, and no statement uses what only one of
the two knows.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

__all__ = [
    "AwayError",
    "ChangedError",
    "Connection",
    "Cursor",
    "DamagedError",
    "Journal",
    "LostLeaseError",
    "Row",
    "digest",
]

P = ParamSpec("P")
T = TypeVar("T")


class ChangedError(Exception):
    """A number was used again for another request."""


class AwayError(Exception):
    """The journal does not answer; whether the last change was kept is not known, and it may be sent again."""


class DamagedError(AwayError):
    """What the journal holds cannot be read any more; it has to be restored from a backup."""


class LostLeaseError(Exception):
    """Another Gateway has the engines now, so nothing of this one's may be kept any more."""


class Row(Protocol):
    """One row: its values by their names, or by their numbers."""

    def __getitem__(self, key: str | int, /) -> Any:
        """Return a value."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the values."""

    def keys(self) -> Sequence[str]:
        """Return the names."""


class Cursor(Protocol):
    """What came of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""

    def fetchone(self) -> Any:
        """Return the next row; None when there is none."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""


class Connection(Protocol):
    """Where statements of one transaction run."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor:
        """Run a statement, whose values stand as `?`."""


class Journal(ABC):
    """Runs functions on a connection, each in one transaction, beside the event loop."""

    is_shared = False
    """Whether other Gateways may have the same journal."""
    damage: str | None = None
    """Why nothing is read from the journal or written into it any more, where it was found damaged."""
    heard: Callable[[str, str, float, Mapping[str, Any]], object] | None = None
    """Hears of each event that this Gateway has kept: its tenant, name, time and details."""

    @abstractmethod
    async def open(self) -> None:
        """Be ready, with the tables of this version. Raises `AwayError`, and `ValueError` for a newer journal."""

    async def check(self, seconds: float) -> bool:  # noqa: ARG002  # a database server looks after its own files
        """Look whether all of the journal can be read; False when that takes longer. Raises `DamagedError`."""
        return True

    async def mark_open(self) -> None:  # noqa: B027  # a database server looks after its own files
        """Note beside a file in which something was written just now that it is open, until it is closed."""

    @abstractmethod
    async def close(self) -> None:
        """Let go; what runs ends first."""

    @abstractmethod
    async def run(self, change: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Run a function on a connection in one transaction; an exception takes everything back.

        Raises:
            AwayError: when the journal does not answer.
        """

    async def read(self, look: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Run a function that changes nothing; it finds what was answered before. Raises as `run` does."""
        return await self.run(look, *args, **named)

    async def watch(self, tell: Callable[[str | None], None]) -> None:  # noqa: B027  # one Gateway has nothing to hear
        """Tell what Gateways write, until it is cancelled; a journal of one Gateway ends at once.

        Args:
            tell: is called with `new KIND ID`, `ended ID` or `unloaded MODEL`; with None after a silence.
        """

    async def rows(self, query: str, *values: Any) -> list[Row]:
        """Return all rows of a query."""
        return await self.read(_rows, query, values)

    async def row(self, query: str, *values: Any) -> Row | None:
        """Return the first row of a query."""
        return next(iter(await self.rows(query, *values)), None)

    async def execute(self, statement: str, *values: Any) -> int:
        """Run one statement, and return how many rows it changed."""
        return await self.run(_execute, statement, values)


def _rows(connection: Connection, query: str, values: Sequence[Any]) -> list[Row]:
    return connection.execute(query, values).fetchall()


def _execute(connection: Connection, statement: str, values: Sequence[Any]) -> int:
    return connection.execute(statement, values).rowcount


def digest(body: bytes) -> str:
    """Return what tells two bodies apart."""
    return hashlib.sha256(body).hexdigest()
