"""Which of many keys has the largest size, without looking at all of them."""

from __future__ import annotations

import heapq

__all__ = ["Sizes"]

_SPARE = 64  # outdated entries that are kept beside as many as there are keys


class Sizes:
    """Sizes by key. A size costs the logarithm of the number of keys, as does asking for the largest."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._bounds: dict[str, int] = {}  # by key, what its newest entry in the heap says: its size, or more
        self._heap: list[tuple[int, str]] = []  # bounds, negative; older ones of a key are outdated

    def set(self, key: str, size: int) -> None:
        """Note the size of a key; 0 forgets it."""
        if size:
            self._sizes[key] = size
        else:
            self._sizes.pop(key, None)
        if size > self._bounds.get(key, 0):
            self._push(key, size)

    def largest(self) -> str | None:
        """Return a key that has the largest size; None when there are no keys."""
        while self._heap:
            bound, key = -self._heap[0][0], self._heap[0][1]
            size = self._sizes.get(key, 0)
            if bound == self._bounds.get(key) == size:
                return key
            heapq.heappop(self._heap)
            if bound == self._bounds.get(key):
                del self._bounds[key]
                if size:
                    self._push(key, size)
        return None

    def _push(self, key: str, size: int) -> None:
        self._bounds[key] = size
        heapq.heappush(self._heap, (-size, key))
        if len(self._heap) > 2 * len(self._bounds) + _SPARE:
            self._heap = [(-bound, each) for each, bound in self._bounds.items()]
            heapq.heapify(self._heap)
