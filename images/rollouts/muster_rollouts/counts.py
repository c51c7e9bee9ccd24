"""What the trainer takes, counted for both processes."""

from __future__ import annotations

import queue
from collections import deque
from multiprocessing.context import SpawnContext
from typing import Any

from muster_rollouts.gate import Progress

__all__ = ["CountedQueue", "Counts"]

_REMEMBERED = 8  # versions, of which the one with the fewest samples counts
_VERSION, _TAKEN, _BEFORE, _PER_VERSION, _WAITS = range(5)


class Counts:
    """What the trainer has done, in memory that both processes see; only the trainer's process writes.

    It stands where TRL's worker has a `multiprocessing.Value` of the version, which goes to the child process; all
    else that goes there has to be pickled.

    Args:
        context: of multiprocessing.
        per_version: samples that the trainer takes between two versions, until it has shown how many.
    """

    def __init__(self, context: SpawnContext, per_version: int) -> None:
        if per_version < 1:
            msg = f"per_version must be 1 or more, for it is samples between two versions, but is {per_version}."
            raise ValueError(msg)
        self._shared = context.Array("q", [0, 0, 0, per_version, 0])
        self._lately: deque[int] = deque(maxlen=_REMEMBERED)

    def get_lock(self) -> Any:
        """Return the lock of the memory, which may be taken more than once."""
        return self._shared.get_lock()

    @property
    def value(self) -> int:
        """The version of the weights that are served."""
        return self.read().version

    @value.setter
    def value(self, version: int) -> None:
        with self._shared.get_lock():
            taken, before = self._shared[_TAKEN], self._shared[_BEFORE]
            # Before its first step the trainer fetches batches ahead, so that its first version says too much.
            if before:
                self._lately.append(max(1, taken - before))
                self._shared[_PER_VERSION] = min(self._lately)
            self._shared[_VERSION], self._shared[_BEFORE] = version, taken

    def read(self) -> Progress:
        """Return a consistent view."""
        with self._shared.get_lock():
            version, taken, before, per_version, waits = self._shared[:]
        return Progress(version, taken, before, per_version, bool(waits))

    def wait(self) -> None:
        """Say that the trainer waits for a sample."""
        self._shared[_WAITS] = 1

    def take(self) -> None:
        """Count a sample that the trainer took."""
        with self._shared.get_lock():
            self._shared[_TAKEN] += 1
            self._shared[_WAITS] = 0


class CountedQueue:
    """The part of a queue that AsyncGRPOTrainer uses, in front of a queue of multiprocessing."""

    def __init__(self, inner: queue.Queue[Any], counts: Counts) -> None:
        self._inner, self._counts = inner, counts

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the queue itself for another process, for only the trainer's one counts."""
        return _itself, (self._inner,)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take a sample, and count it."""
        try:
            sample = self._inner.get(block=False)
        except queue.Empty:
            self._counts.wait()
            sample = self._inner.get(block=block, timeout=timeout)
        self._counts.take()
        return sample

    def qsize(self) -> int:
        """Return about how many samples wait."""
        return self._inner.qsize()


def _itself(inner: queue.Queue[Any]) -> queue.Queue[Any]:
    return inner
