"""Turns by tenant: who has had least of a resource is next, and within a tenant what was served longest ago.

Start-time fair queueing (Goyal, Vin and Cheng, 1996). A tenant who had nothing waiting takes part from the time of the
piece that is being served, so he has no credit of the time in which he was away, and whatever others have waiting, each
of them is served once at most before him. A resource is never idle while something waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Generic, TypeVar

from muster.sessions.tenancy import Share

__all__ = ["Fair"]

T = TypeVar("T")
_RECENT = 64  # pieces in which others have been served for a tenant not to be alone
_LOOK = 64  # keys of a tenant that are looked at at once


@dataclass(slots=True)
class _Line(Generic[T]):
    """What waits of one tenant.

    Attributes:
        share: his, as the last thing that came had it.
        time: what he has had, divided by his weight, on the clock of the whole queue.
        since: number of what came when he had nothing waiting; decides between equals.
        served: number of the last piece of his.
        waiting: by key, in the order in which the keys are served.
    """

    share: Share
    time: float
    since: int
    served: int = -_RECENT - 1
    waiting: dict[str, deque[T]] = field(default_factory=dict)


class Fair(Generic[T]):
    """What waits for one resource; may be used by several threads.

    Nothing is kept of a tenant who has nothing waiting and was not served lately.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line[T]] = {}
        self._time = 0.0
        self._numbers = count()
        self._pieces = 0
        self._length = 0
        self._lock = threading.RLock()  # what is asked whether it fits may ask whether it is alone

    def __len__(self) -> int:
        """How much waits."""
        return self._length

    def put(self, share: Share, key: str, item: T) -> None:
        """Have something wait.

        Args:
            share: whose it is.
            key: of what keeps its order, such as a model; keys of a tenant take turns.
            item: what waits.
        """
        with self._lock:
            line = self._lines.get(share.tenant)
            if line is None:
                line = self._lines[share.tenant] = _Line(share, self._time, 0)
            if not line.waiting:
                line.time, line.since = max(line.time, self._time), next(self._numbers)
            line.share = share
            line.waiting.setdefault(key, deque()).append(item)
            self._length += 1

    def take(self, fits: Callable[[Share, T], bool] = lambda _share, _item: True) -> tuple[Share, T] | None:
        """Return what is next, and whose it is; None where nothing waits that fits. Say with `spent` what it took.

        Args:
            fits: is asked of the first of each key; what it says no to keeps its place.
        """
        with self._lock:
            order = self._order()
            if not order:  # whoever had more while he was alone owes nothing for it
                self._time = max((each.time for each in self._lines.values()), default=self._time)
            for line in order:
                for key in islice(line.waiting, _LOOK):
                    if fits(line.share, line.waiting[key][0]):
                        self._time = max(self._time, line.time)
                        return line.share, self._taken(line, key)
            return None

    def company(self, fits: Callable[[Share, T], bool]) -> list[tuple[Share, T]]:
        """Take more, to be served with what was taken last: the first of each key that fits, a tenant after the other.

        Args:
            fits: is asked of each; what it says no to keeps its place.
        """
        with self._lock:
            taken = []
            for line, key in list(islice(self._rounds(), _LOOK)):
                if fits(line.share, line.waiting[key][0]):
                    taken.append((line.share, self._taken(line, key)))
            return taken

    def spent(self, amounts: Mapping[str, float]) -> None:
        """Count one piece.

        Args:
            amounts: what each tenant has had of it, in any unit; less than 0 takes back what was counted before.
        """
        with self._lock:
            for tenant, amount in amounts.items():
                if (line := self._lines.get(tenant)) is not None:
                    line.time += amount / line.share.weight
                    line.served = self._pieces
            self._pieces += 1
            if self._pieces % _RECENT == 0:
                self._forget()

    def is_alone(self, tenant: str) -> bool:
        """Tell whether nobody else waits, and nobody else was served lately."""
        with self._lock:
            others = (line for name, line in self._lines.items() if name != tenant)
            return not any(each.waiting or self._is_recent(each) for each in others)

    def _is_recent(self, line: _Line[T]) -> bool:
        return self._pieces - line.served <= _RECENT

    def _order(self) -> list[_Line[T]]:
        return sorted((each for each in self._lines.values() if each.waiting), key=lambda each: (each.time, each.since))

    def _rounds(self) -> Iterator[tuple[_Line[T], str]]:
        """Yield the keys of all tenants: the first of each, then the second of each."""
        rest = [(line, iter(list(islice(line.waiting, _LOOK)))) for line in self._order()]
        while rest:
            found = [(line, keys, next(keys, None)) for line, keys in rest]
            yield from ((line, key) for line, _, key in found if key is not None)
            rest = [(line, keys) for line, keys, key in found if key is not None]

    def _taken(self, line: _Line[T], key: str) -> T:
        waiting = line.waiting.pop(key)
        item = waiting.popleft()
        if waiting:
            line.waiting[key] = waiting  # behind the others
        self._length -= 1
        return item

    def _forget(self) -> None:
        for name, line in list(self._lines.items()):
            if not line.waiting and not self._is_recent(line):
                del self._lines[name]
