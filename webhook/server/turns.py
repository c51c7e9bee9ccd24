"""Turns: no author of jobs can crowd out others, however much one sends.

An author is a user in a namespace. Children are given to authors by turns, and one author has all but one of them at
most. Where as many reviews are under way as may be, the author of most of them gives way, the newest review first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator

from muster.webhook.admission import reviews

__all__ = ["Author", "BusyError", "Places", "Turns", "author_of"]

Author = tuple[str, str]


def author_of(request: reviews.Request) -> Author:
    """Return the namespace and the user."""
    return request.namespace, request.username


class BusyError(Exception):
    """As many reviews are under way as may be, and nobody has more of them than the author of this one."""


class Places:
    """Places for reviews that are under way.

    Args:
        most: how many there are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: defaultdict[Author, dict[asyncio.Timeout, None]] = defaultdict(dict)  # the newest last

    def __len__(self) -> int:
        """The number of places that are taken."""
        return sum(map(len, self._taken.values()))

    @contextlib.asynccontextmanager
    async def place(self, author: Author) -> AsyncIterator[asyncio.Timeout]:
        """Take a place for as long as the block runs, which the timeout that it gets ends before.

        Raises:
            BusyError: all are taken and nobody has more; or the timeout was used, as others have less.
        """
        if len(self) >= self._most:
            self._make_room(author)
        patience = asyncio.timeout(None)
        self._taken[author][patience] = None
        try:
            async with patience:
                yield patience
        except TimeoutError as error:
            if patience.expired():
                raise BusyError from error
            raise
        finally:
            self._leave(author, patience)

    def _make_room(self, author: Author) -> None:
        most = max(self._taken, key=lambda each: len(self._taken[each]))
        if len(self._taken[most]) <= len(self._taken.get(author, ())) + 1:
            raise BusyError
        newest = next(reversed(self._taken[most]))
        newest.reschedule(asyncio.get_running_loop().time())
        self._leave(most, newest)

    def _leave(self, author: Author, patience: asyncio.Timeout) -> None:
        self._taken[author].pop(patience, None)
        if not self._taken[author]:
            del self._taken[author]


class Turns:
    """Turns at what few can do at the same time.

    Args:
        at_once: how many; of one author one less, so that a turn of others need not wait for the end of theirs.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once, self._most = at_once, max(1, at_once - 1)
        self._having: Counter[Author] = Counter()
        self._waiting: dict[Author, deque[asyncio.Future[None]]] = {}  # whoever is next comes first

    @contextlib.asynccontextmanager
    async def turn(self, author: Author) -> AsyncIterator[None]:
        """Wait for a turn, and have it for as long as the block runs."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(author, deque()).append(turn)
        self._next()
        try:
            await turn
            yield
        finally:
            if not turn.cancelled():
                self._having = self._having - Counter([author])
                self._next()

    def _next(self) -> None:
        while self._having.total() < self._at_once:
            author = next((each for each in self._waiting if self._having[each] < self._most), None)
            if author is None:
                return
            line = self._waiting.pop(author)
            turn = line.popleft()
            if line:
                self._waiting[author] = line  # behind the other authors
            if not turn.done():
                self._having[author] += 1
                turn.set_result(None)
