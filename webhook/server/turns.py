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


class Places:
    """Places for reviews that are under way.

    Args:
        most: how many there are.

    Attributes:
        taken: how many are taken.
        held: by their authors, the newest last.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0
        self.held: dict[Author, dict[Place, None]] = {}

    def make_room(self, author: Author) -> None:
        """Have the newest place of the author with most given up, where all are taken. Raises `BusyError`."""
        if self.taken >= self._most:
            most = max(self.held.values(), key=len)
            if len(most) <= len(self.held.get(author, ())) + 1:
                raise BusyError
            next(reversed(most)).give_up()


class Place:
    """A place among `places`, for as long as the block of a `with` runs.

    Raises:
        BusyError: all are taken and nobody has more; or it was given up.
    """

    __slots__ = ("_author", "_is_left", "_places", "_task")

    def __init__(self, places: Places, author: Author) -> None:
        self._places, self._author = places, author
        self._task = asyncio.current_task()
        self._is_left = False

    def __enter__(self) -> Self:
        self._places.make_room(self._author)
        self._places.held.setdefault(self._author, {})[self] = None
        self._places.taken += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if not self._is_left:
            self._leave()
        elif self._task and not self._task.uncancel() and kind is asyncio.CancelledError:
            raise BusyError from error

    def give_up(self) -> None:
        """End the block, and leave the place at once."""
        if self._task and not self._is_left:
            self._leave()
            self._task.cancel()

    def _leave(self) -> None:
        self._is_left = True
        self._places.taken -= 1
        own = self._places.held[self._author]
        del own[self]
        if not own:
            del self._places.held[self._author]


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
