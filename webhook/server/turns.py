"""Turns: no author of jobs can crowd out others, however much one sends.

An author is a user in a namespace. Children are given to authors by turns, and one author has all but one of them at
most. Where as many reviews are under way as may be, the author of most of them gives way, the newest review first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator
from typing import Self

__all__ = ["Author", "BusyError", "Place", "Places", "Turns"]

Author = tuple[str, str]


class BusyError(Exception):
    """As many reviews are under way as may be, and nobody has more of them than the author of this one."""


class Place:
    """A place among `places`, for as long as the block of a `with` runs.

    Raises:
        BusyError: all are taken and nobody has more; or it was given up.
    """

    __slots__ = ("_author", "_is_given_up", "_places", "_task")

    def __init__(self, places: Places, author: Author) -> None:
        self._places, self._author = places, author
        self._task: asyncio.Task[object] | None = None
        self._is_given_up = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._places.take(self._author, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        self._places.leave(self._author, self)
        if self._is_given_up and self._task and not self._task.uncancel() and kind is asyncio.CancelledError:
            raise BusyError from error

    def give_up(self) -> None:
        """End the block, and leave the place at once."""
        if self._task and not self._is_given_up:
            self._is_given_up = True
            self._places.leave(self._author, self)
            self._task.cancel()


class Places:
    """Places for reviews that are under way.

    Args:
        most: how many there are.

    Attributes:
        taken: how many are taken.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_author: dict[Author, dict[Place, None]] = {}  # the newest last
        self.taken = 0

    def take(self, author: Author, place: Place) -> None:
        """Count a place; where all are taken, the newest of the author with most is given up. Raises `BusyError`."""
        if self.taken >= self._most:
            most = max(self._by_author.values(), key=len)
            if len(most) <= len(self._by_author.get(author, ())) + 1:
                raise BusyError
            next(reversed(most)).give_up()
        self._by_author.setdefault(author, {})[place] = None
        self.taken += 1

    def leave(self, author: Author, place: Place) -> None:
        """Count a place no longer."""
        own = self._by_author.get(author, {})
        if place in own:
            del own[place]
            self.taken -= 1
        if not own:
            self._by_author.pop(author, None)


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
