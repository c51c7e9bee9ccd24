"""Ranks tell one another what they measured, by the store of the default process group, in a thread of their own.

No collective is called and the thread of the training never touches the store, so nothing of it can wait. There are
three stages, one for each of the first three steps. At each, every rank writes its record, and rank 0 reads all of them
once they are there, or those that are there in time; it judges, and writes its judgement for the others.

Keys, all below `muster/`: `RANK` a record, `told/STAGE` how many ranks but rank 0 have written one, `judged/STAGE` a
judgement, `read/STAGE` how many have read it. Rank 0 may own the store, so it goes on when the others have read.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

__all__ = ["STAGES", "Exchange", "Part", "store"]

STAGES = 3
_PATIENCE = {1: 30.0, 2: 30.0, STAGES: 300.0}  # seconds that a rank waits for the others at a stage
_LAST = 5.0  # seconds that it waits for them at its end
_READ = 3.0  # seconds that rank 0 waits until the others have read a judgement
_LONGEST = 1.0  # seconds between two looks


class Part(Protocol):
    """What a rank puts into an exchange, and takes out of it.

    Attributes:
        rank: of this process.
        size: number of ranks.
    """

    rank: int
    size: int

    def record(self) -> Any:
        """Return what this rank measured until now, as JSON."""

    def judge(self, records: dict[int, Any], stage: int) -> Any:
        """Judge the records of a stage, by rank; return it as JSON."""

    def judged(self, judgement: Any) -> None:
        """Take a judgement, and end the process where it says so."""

    def look(self, store: Any) -> None:
        """Use the store: when the stages are over, each time that `wake` was called, and at the end."""

    def failed(self, error: Exception) -> None:
        """Take a fault."""


class Exchange:
    """The exchange of one training, as one rank has it.

    Args:
        store: as torch's stores.
        part: what this rank does in it.
    """

    def __init__(self, store: Any, part: Part) -> None:
        self._store, self._part = store, part
        self._reached = [threading.Event() for _ in range(STAGES)]
        self._woken, self._closing = threading.Event(), threading.Event()
        self._closed_at = float("inf")
        self._thread = threading.Thread(target=self._run, name="muster", daemon=True)
        self._thread.start()

    def reach(self, stage: int) -> None:
        """Say that this rank has made this step; the first is 1."""
        self._reached[stage - 1].set()

    def wake(self) -> None:
        """Have `idle` called soon."""
        self._woken.set()

    def close(self, *, at_once: bool) -> None:
        """End it: what is left of the stages is done now, within some seconds, unless `at_once`."""
        self._closed_at = time.monotonic()
        self._closing.set()
        for each in (*self._reached, self._woken):
            each.set()
        if not at_once:
            self._thread.join(_LAST + 1)

    def _run(self) -> None:
        try:
            for stage, reached in enumerate(self._reached, 1):
                reached.wait()
                self._turn(stage)
            while not self._closing.is_set():
                self._woken.wait()
                self._woken.clear()
                self._part.look(self._store)
            self._part.look(self._store)
        except RuntimeError:
            pass  # the store is gone, because its owner ended: what the others say cannot be observed
        except Exception as error:  # noqa: BLE001  # the guard harms nothing
            self._part.failed(error)

    def _turn(self, stage: int) -> None:
        """Write a record, and judge or take a judgement."""
        self._store.set(f"muster/{self._part.rank}", json.dumps(self._part.record()))
        told, judgement, read = (f"muster/{name}/{stage}" for name in ("told", "judged", "read"))
        if self._part.rank:
            self._store.add(told, 1)
            if self._waited(lambda: self._store.check([judgement]), _PATIENCE[stage]):
                made = json.loads(self._store.get(judgement))
                self._store.add(read, 1)
                self._part.judged(made)
            return
        self._waited(lambda: self._store.add(told, 0) >= self._part.size - 1, _PATIENCE[stage])
        made = self._part.judge(dict(self._records()), stage)
        self._store.set(judgement, json.dumps(made))
        self._waited(lambda: self._store.add(read, 0) >= self._part.size - 1, _READ)
        self._part.judged(made)

    def _records(self) -> Iterator[tuple[int, Any]]:
        for rank in range(self._part.size):
            if self._store.check([f"muster/{rank}"]):
                yield rank, json.loads(self._store.get(f"muster/{rank}"))

    def _waited(self, is_true: Callable[[], bool], patience: float) -> bool:
        """Wait until something is true of the store; return whether it was in time."""
        begun, pause = time.monotonic(), 0.01
        while not is_true():
            if time.monotonic() > min(begun + patience, self._closed_at + _LAST):
                return False
            time.sleep(pause)
            pause = 0.05 if self._closing.is_set() else min(_LONGEST, pause * 1.5)
        return True


def store(distributed: Any) -> Any:
    """Return the store of the default group, or one of this process alone where there is none; None without either."""
    if distributed is None or not distributed.is_available():
        return None
    with contextlib.suppress(ValueError):
        return distributed.distributed_c10d._get_default_store()  # noqa: SLF001  # torch has no public way to it
    return distributed.HashStore()
