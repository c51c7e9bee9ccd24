"""Terms: while this Gateway holds the lease of the engines, it executes what is in the journal."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from muster.sessions.journal import leases
from muster.sessions.journal.store import AwayError, Journal, LostLeaseError

__all__ = ["Elsewhere", "Terms"]

_LOG = logging.getLogger(__name__)


class Elsewhere:
    """Stands for what another Gateway does: the journal tells that one, and nothing is done here."""

    def wake(self) -> None:
        """Do nothing."""

    def begin(self, id_: str) -> None:
        """Do nothing."""

    def cancel(self, id_: str) -> None:
        """Do nothing."""


class Terms:
    """Takes the lease when nobody has it, renews it, and has work begin and end with it.

    Args:
        journal: that Gateways share.
        holder: this Gateway, by a name that no other process has.
        seconds: how long a lease lasts.
        begin: is called with the journal of a term and its number; returns soon.
        end: is called when the term is over.
    """

    def __init__(
        self,
        journal: Journal,
        holder: str,
        seconds: float,
        begin: Callable[[Journal, int], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self._journal, self._holder, self._seconds = journal, holder, seconds
        self._begin, self._end = begin, end
        self._number = 0
        self.is_elsewhere = False

    async def keep(self) -> None:
        """Take and renew the lease until it is cancelled. A journal that is away ends no term: nobody else gets it."""
        while True:
            try:
                await self._seen(await self._journal.run(leases.take, self._holder, self._seconds))
            except (AwayError, LostLeaseError) as error:
                self.is_elsewhere = False
                _LOG.warning("the lease could not be renewed: %s", error)
            except Exception:  # noqa: BLE001  # whoever stops to ask for the lease executes nothing ever again
                self.is_elsewhere = False
                _LOG.exception("the lease could not be renewed")
            await asyncio.sleep(self._seconds / 3 * random.uniform(0.8, 1))  # noqa: S311  # no secret

    async def close(self) -> None:
        """Give the lease up, after `keep` was cancelled and the work has ended."""
        if self._number:
            try:
                await self._journal.run(leases.give_up, self._holder)
            except AwayError:
                _LOG.warning("the lease could not be given up, and ends by itself")

    async def _seen(self, held: leases.Held) -> None:
        self.is_elsewhere = not held.number
        if held.number == self._number:
            return
        if self._number:
            _LOG.warning("%s has the engines now; this Gateway ends its own", held.holder)
            self._number = 0
            await self._end()
        if held.number:
            _LOG.info("this Gateway has the engines now, term %s", held.number)
            await self._start(held.number)

    async def _start(self, number: int) -> None:
        try:
            await self._begin(leases.Fenced(self._journal, self._holder, number), number)
        except Exception:
            await self._end()  # what has begun would begin again beside itself
            raise
        self._number = number
