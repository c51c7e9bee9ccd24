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
from typing import Any

__all__ = ["STAGES", "Exchange", "store"]

STAGES = 3
_PATIENCE = {1: 30.0, 2: 30.0, STAGES: 300.0}  # seconds that a rank waits for the others at a stage
_LAST = 5.0  # seconds that it waits for them at its end
_READ = 3.0  # seconds that rank 0 waits until the others have read a judgement
_LONGEST = 1.0  # seconds between two looks


class Exchange:
    """The part of one rank.

    Args:
        store: as torch's stores.
        rank: of this process.
        size: number of ranks.
        record: returns what this rank measured until now, as JSON.
        judge: makes a judgement of records by rank at a stage, as JSON.
        judged: takes a judgement, and may end the process.
        idle: takes the store when the stages are over, each time that `wake` was called, and at the end.
        failed: takes what went wrong.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        *,
        record: Callable[[], Any],
        judge: Callable[[dict[int, Any], int], Any],
        judged: Callable[[Any], None],
        idle: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._record, self._judge, self._judged, self._idle, self._failed = record, judge, judged, idle, failed
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
                self._idle(self._store)
            self._idle(self._store)
        except RuntimeError:
            pass  # the store is gone, because its owner ended: what the others say cannot be observed
        except Exception as error:  # noqa: BLE001  # the guard harms nothing
            self._failed(error)

    def _turn(self, stage: int) -> None:
        """Write a record, and judge or take a judgement."""
        self._store.set(f"muster/{self._rank}", json.dumps(self._record()))
        told, judgement, read = (f"muster/{name}/{stage}" for name in ("told", "judged", "read"))
        if self._rank:
            self._store.add(told, 1)
            if self._waited(lambda: self._store.check([judgement]), _PATIENCE[stage]):
                made = json.loads(self._store.get(judgement))
                self._store.add(read, 1)
                self._judged(made)
            return
        self._waited(lambda: self._store.add(told, 0) >= self._size - 1, _PATIENCE[stage])
        made = self._judge(dict(self._records()), stage)
        self._store.set(judgement, json.dumps(made))
        self._waited(lambda: self._store.add(read, 0) >= self._size - 1, _READ)
        self._judged(made)

    def _records(self) -> Iterator[tuple[int, Any]]:
        for rank in range(self._size):
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
