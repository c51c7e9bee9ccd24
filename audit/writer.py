"""Takes records from the event loop without blocking it, and writes them on its own thread.

An admission must not wait for a disk or for the reader of stdout. So `submit` only puts a record into a bounded queue;
sealing and writing happen on the writer's thread. Every loss is counted, and the next record that is written reports
it.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from muster.audit.anchor_notes import Ends
from muster.audit.record_schema import Record
from muster.audit.sink_worker import Retry, SinkWorker
from muster.audit.sinks import BatchSink, Sink, StreamSink

__all__ = ["AuditWriter", "DropReason"]

_log = logging.getLogger(__name__)

DropReason: TypeAlias = Literal["full", "refused", "invalid", "unwritten", "closed"]
"""Why a record is lost: queue full, refused while the primary fails, not JSON, no sink took it, or too late."""

_SHORT_QUEUE = 16
"""Records that may wait without being weighed, so that a writer that keeps up costs an admission nothing."""

_TOGETHER = 64  # records that are written at once, if as many wait
_TEXT, _CONTAINER = 50, 64  # bytes of an object in memory, without what is in it

# A queue item: a record with the number of records lost just before it and its weight in bytes, a request to report
# (flush), or None to end.
_Queued: TypeAlias = tuple[Record, int, int]
_Item: TypeAlias = _Queued | threading.Event | None


class AuditWriter:
    """Writes records to all `sinks`; the first one is the primary.

    Args:
        sinks: where each record goes; they are closed with the writer.
        fallback: the sink for records that no other sink took; by default stdout, unless it is among the sinks.
        queue_size: maximum number of waiting records; further ones are dropped.
        queue_bytes: memory that waiting records may take, about; further ones are dropped.
        on_failure: with `fallback`, records are written elsewhere while the primary fails; with `deny`, `submit`
            returns False, and records that were accepted before are kept until the primary works.
        on_drop: called with the reason and the number of lost records, on any thread.
        on_error: called with a sink's name and each of its errors, on the writer's thread.
        linger: seconds that the thread waits before it works while few records wait, to leave the processor to the
            event loop and to write several at once.
        retry: pauses between attempts at a failing sink.
    """

    def __init__(  # noqa: PLR0913  # each is an option of the operator
        self,
        sinks: Sequence[Sink],
        *,
        fallback: Sink | None = None,
        queue_size: int = 10_000,
        queue_bytes: int = 64 * 1024 * 1024,
        on_failure: Literal["fallback", "deny"] = "fallback",
        on_drop: Callable[[DropReason, int], None] = lambda _reason, _count: None,
        on_error: Callable[[str, Exception], None] = lambda _name, _error: None,
        linger: float = 0.01,
        retry: Retry | None = None,
    ) -> None:
        if not sinks:
            raise ValueError("an audit writer needs at least one sink")
        retry = retry or Retry()
        self._workers = [SinkWorker(sink, retry, on_error) for sink in sinks]
        if fallback is None and not any(isinstance(sink, StreamSink) for sink in sinks):
            fallback = StreamSink()
        self._fallback = SinkWorker(fallback, retry, on_error) if fallback else None
        self._denies = on_failure == "deny"
        self._on_drop = on_drop
        self._linger = linger
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._queue_size = queue_size
        self._queue_bytes = queue_bytes
        self._weight = 0
        self._guard = threading.Lock()
        self._lost = 0
        self._hurry = threading.Event()
        self._closing = threading.Event()
        self._waiting: collections.deque[_Item] = collections.deque()  # taken from the queue, and not yet handled
        self._together = isinstance(sinks[0], BatchSink) and (on_failure == "fallback" or len(sinks) == 1)
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    @property
    def healthy(self) -> bool:
        """Whether the primary sink took the last record."""
        return not self._workers[0].failing

    @property
    def ends(self) -> list[Ends | None]:
        """What was written of each chain, always in the same order; None for one without a record of this process."""
        return [worker.ends for worker in self._all_workers()]

    def submit(self, record: Record) -> bool:
        """Queue a record, which must not be changed afterwards; never blocks.

        Returns:
            False when the record is lost and `on_failure` is `deny`: then the admission must be refused. With
                `fallback`, a lost record is counted and the admission continues.
        """
        reason, weight = self._refusal(), 0
        if reason is None and self._queue.qsize() >= _SHORT_QUEUE:
            weight = _weight(record, self._queue_bytes)
        with self._guard:
            if reason is None and self._weight + weight <= self._queue_bytes:
                self._weight += weight
                self._queue.put((record, self._lost, weight))
                self._lost = 0
                return True
            reason = reason or "full"
            self._lost += 1
        self._on_drop(reason, 1)
        return not self._denies

    def flush(self, timeout: float) -> bool:
        """Wait until all earlier records are handled; False when that takes more than `timeout` seconds."""
        if self._closing.is_set():
            return not self._thread.is_alive()
        done = threading.Event()
        self._queue.put(done)
        self._hurry.set()
        return done.wait(timeout)

    def close(self, timeout: float) -> bool:
        """Accept no more records, write the waiting ones, close the sinks; after `timeout` seconds the rest is dropped.

        Returns:
            True when all records were handled. A thread that hangs in a sink does not keep the process alive.
        """
        self._closing.set()
        self._queue.put(None)
        self._hurry.set()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            return True
        self._discard()
        self._queue.put(None)
        return False

    def _refusal(self) -> DropReason | None:
        if self._closing.is_set():
            return "closed"
        if self._denies and not self.healthy:
            return "refused"
        return "full" if self._queue.qsize() >= self._queue_size else None

    def _run(self) -> None:
        while True:
            if self._holds():
                self._closing.wait(self._workers[0].wait)
                self._retry()
                continue
            try:
                item = self._next()
            except queue.Empty:
                self._retry()
                continue
            if item is None:
                break
            if isinstance(item, threading.Event):
                if not self._closing.is_set():
                    self._hurry.clear()
                item.set()
            else:
                self._handle(item)
        for worker in self._all_workers():
            worker.close()

    def _holds(self) -> bool:
        """Whether records stay in the queue, because only the primary may take them."""
        return self._denies and not self.healthy and not self._closing.is_set()

    def _next(self) -> _Item:
        if self._waiting:
            return self._waiting.popleft()
        with contextlib.suppress(queue.Empty):
            item = self._queue.get_nowait()
            if self._together and self._queue.qsize() < _SHORT_QUEUE:
                self._hurry.wait(self._linger)  # records that come meanwhile are written with it
            return item
        waits = [wait for worker in self._workers if (wait := worker.wait) is not None]
        item = self._queue.get(timeout=min(waits, default=None))
        self._hurry.wait(self._linger)
        return item

    def _following(self) -> list[_Queued]:
        """Return records that wait behind one, up to one before which others were lost; they go on waiting."""
        if not self._together:
            return []
        with contextlib.suppress(queue.Empty):
            while len(self._waiting) < _TOGETHER:
                self._waiting.append(self._queue.get_nowait())
        out: list[_Queued] = []
        for item in itertools.islice(self._waiting, _TOGETHER - 1):
            if not isinstance(item, tuple) or item[1]:
                break
            out.append(item)
        return out

    def _retry(self) -> None:
        for worker in self._workers:
            worker.retry()

    def _handle(self, first: _Queued) -> None:
        """Write a record, and those that wait behind it: as many as a sink takes at once, the others one by one."""
        for worker in self._all_workers():
            worker.miss(first[1])
        items = [first, *self._following()]
        records = [item[0] for item in items]
        counts = [worker.write_all(records) if len(records) > 1 else 0 for worker in self._workers]
        for index, item in enumerate(items):
            if index and (self._holds() or not self._waiting):  # `close` may have given them up
                return
            if index:
                self._waiting.popleft()
            with self._guard:
                self._weight -= item[2]
            left = [worker for worker, count in zip(self._workers, counts, strict=True) if index >= count]
            if left:
                self._write(item[0], left)

    def _write(self, record: Record, workers: Sequence[SinkWorker]) -> None:
        try:
            taken = [worker.write(record) for worker in workers]
            if any(taken) or len(workers) < len(self._workers):
                return
            if self._fallback is None or not self._fallback.write(record):
                self._on_drop("unwritten", 1)
        except Exception as error:  # noqa: BLE001  # a record that is no JSON must not end the writing of the next ones
            _log.error("audit record lost", extra={"error": type(error).__name__})
            self._on_drop("invalid", 1)
            for worker in self._all_workers():
                worker.miss(1)

    def _discard(self) -> None:
        left: list[_Item] = []
        with contextlib.suppress(queue.Empty):
            while True:
                left.append(self._queue.get_nowait())
        with contextlib.suppress(IndexError):
            while True:
                left.append(self._waiting.popleft())
        for item in left:
            if isinstance(item, tuple):
                self._on_drop("closed", 1)

    def _all_workers(self) -> list[SinkWorker]:
        return [*self._workers, self._fallback] if self._fallback else self._workers


def _weight(value: Any, most: int) -> int:
    """Return about how many bytes of memory a record takes; the count ends when it is above `most`."""
    total, stack = 0, [value]
    while stack and total <= most:
        each = stack.pop()
        if isinstance(each, str):
            total += _TEXT + len(each)
        elif isinstance(each, dict):
            total += _CONTAINER
            stack += each
            stack += each.values()
        elif isinstance(each, (list, tuple)):
            total += _CONTAINER + 8 * len(each)
            stack += each
        else:
            total += sys.getsizeof(each)
    return total
