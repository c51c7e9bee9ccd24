"""The lease of the engines: of several Gateways on one journal, one executes what is in it.

A lease ends when it is not renewed, by the clock of the database, so clocks of Gateways need not agree. Its number
grows with each change of the holder. Whatever the holder writes, it writes through `Fenced`, which looks at the number
in the same transaction: a holder that was paused and comes back keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from muster.sessions.journal.store import Connection, Journal, LostLeaseError

__all__ = ["Fenced", "Held", "give_up", "take"]

P = ParamSpec("P")
T = TypeVar("T")
_TAKE = """
INSERT INTO leases (name, holder, number, until) VALUES ('engines', ?, 1, extract(epoch FROM clock_timestamp()) + ?)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until,
    number = leases.number + CASE WHEN leases.holder = excluded.holder THEN 0 ELSE 1 END
    WHERE leases.holder = excluded.holder OR leases.until < extract(epoch FROM clock_timestamp())
RETURNING number
"""
_CHECK = "SELECT 1 FROM leases WHERE name = 'engines' AND holder = ? AND number = ? FOR SHARE"


@dataclass(frozen=True, slots=True)
class Held:
    """Who has the lease.

    Attributes:
        number: of this holder's lease; 0 where another holds it.
        holder: who has it.
    """

    number: int
    holder: str


def take(connection: Connection, holder: str, seconds: float) -> Held:
    """Take or renew the lease, unless another holds it."""
    row = connection.execute(_TAKE, (holder, seconds)).fetchone()
    if row is not None:
        return Held(row["number"], holder)
    other = connection.execute("SELECT holder FROM leases WHERE name = 'engines'").fetchone()
    return Held(0, other["holder"] if other is not None else "")


def give_up(connection: Connection, holder: str) -> None:
    """End the lease of a holder, so that another need not wait for its end."""
    connection.execute("UPDATE leases SET until = 0 WHERE name = 'engines' AND holder = ?", (holder,))


class Fenced(Journal):
    """A journal for who holds the lease; for everybody else, each use raises `LostLeaseError`.

    Args:
        journal: what it stands for; it is opened and closed elsewhere.
        holder: who uses it.
        number: of the lease.
    """

    def __init__(self, journal: Journal, holder: str, number: int) -> None:
        self._journal, self._holder, self._number = journal, holder, number
        self.heard = journal.heard

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def run(self, change: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Run a function in one transaction, in which the lease cannot change."""
        return await self._journal.run(self._checked, change, args, named)

    def _checked(
        self, connection: Connection, change: Callable[..., T], args: Sequence[Any], named: Mapping[str, Any]
    ) -> T:
        if connection.execute(_CHECK, (self._holder, self._number)).fetchone() is None:
            raise LostLeaseError("another Gateway has the engines now")
        return change(connection, *args, **named)
