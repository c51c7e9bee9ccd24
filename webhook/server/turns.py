"""Turns: no author of jobs can crowd out others, however much one sends.

An author is a user in a namespace. Namespaces take turns, and so do the users of each. Namespaces come first, because
an author who may impersonate ServiceAccounts has any number of users in a namespace. One namespace has all turns but
one at most. Where all places are taken, the namespace with most of them gives way, and in it the user with most, the
newest review first.
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
    """All places are taken, and neither another namespace nor another user of this one has more of them."""


class Places:
    """Places for reviews that are under way.

    Args:
        most: how many there are.

    Attributes:
        taken: how many are taken.
        held: by namespace and user, the newest last.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0
        self.held: dict[str, dict[str, dict[Place, None]]] = {}

    def make_room(self, author: Author) -> None:
        """Have one of the places of whoever has most given up, where all are taken. Raises `BusyError`."""
        if self.taken >= self._most:
            own = self.held.get(author[0], {})
            users = max(self.held.values(), key=_held)
            if _held(users) <= _held(own) + 1:
                users = own
            most = max(users.values(), key=len, default={})
            if users is own and len(most) <= len(own.get(author[1], ())) + 1:
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
        namespace, user = self._author
        self._places.held.setdefault(namespace, {}).setdefault(user, {})[self] = None
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
        namespace, user = self._author
        users = self._places.held[namespace]
        del users[user][self]
        if not users[user]:
            del users[user]
        if not users:
            del self._places.held[namespace]


class Turns:
    """Turns at what few can do at the same time.

    Args:
        at_once: how many; of one namespace one less, so that a turn of others need not wait for the end of theirs.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once, self._most = at_once, max(1, at_once - 1)
        self._taken = 0
        self._having: Counter[str] = Counter()  # by namespace
        self._waiting: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}  # whoever is next comes first

    @contextlib.asynccontextmanager
    async def turn(self, author: Author) -> AsyncIterator[None]:
        """Wait for a turn, and have it for as long as the block runs.

        It is over when the event loop has run all that was ready, so that blocks that wait for nothing take turns too.
        """
        turn = None
        if self._waiting or not self._may(author):
            turn = asyncio.get_running_loop().create_future()
            namespace, user = author
            self._waiting.setdefault(namespace, {}).setdefault(user, deque()).append(turn)
            self._next()
        else:
            self._begin(author)
        try:
            if turn is not None:
                await turn
            yield
        finally:
            if turn is None or not turn.cancelled():
                asyncio.get_running_loop().call_soon(self._end, author)

    def _may(self, author: Author) -> bool:
        return self._taken < self._at_once and self._having[author[0]] < self._most

    def _begin(self, author: Author) -> None:
        self._taken += 1
        self._having[author[0]] += 1

    def _end(self, author: Author) -> None:
        self._taken -= 1
        self._having[author[0]] -= 1
        if not self._having[author[0]]:
            del self._having[author[0]]
        self._next()

    def _next(self) -> None:
        while (author := self._first()) is not None:
            namespace, user = author
            users = self._waiting.pop(namespace)
            line = users.pop(user)
            turn = line.popleft()
            if line:
                users[user] = line  # behind the other users
            if users:
                self._waiting[namespace] = users  # behind the other namespaces
            if not turn.done():
                self._begin(author)
                turn.set_result(None)

    def _first(self) -> Author | None:
        authors = ((namespace, user) for namespace, users in self._waiting.items() for user in users)
        return next(filter(self._may, authors), None)


def _held(users: dict[str, dict[Place, None]]) -> int:
    return sum(map(len, users.values()))
