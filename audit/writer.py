"""Takes records from the event loop without blocking it, and writes them on its own thread.

An admission must not wait for a disk or for the reader of stdout. So `submit` only puts a record into a bounded queue;
sealing and writing happen on the writer's thread. Every loss is counted, and the next record that is written reports
it.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import orjson

from muster.audit.anchor_notes import Ends
from muster.audit.record_schema import Record
from muster.audit.sink_worker import SinkWorker
from muster.audit.sinks import Sink, StreamSink
from muster.backoffs import Backoff

__all__ = ["AuditWriter", "DropReason"]

_log = logging.getLogger(__name__)

DropReason: TypeAlias = Literal["full", "refused", "invalid", "unwritten", "closed"]
"""Why a record is lost: queue full, refused while the primary fails, not JSON, no sink took it, or too late."""

_SHORT_QUEUE = 16
"""Records that may wait without being weighed, so that a writer that keeps up costs an admission nothing."""

# A queue item: a record with the number of records lost just before it and its weight in bytes, a request to report
# (flush), or None to end.
_Queued: TypeAlias = tuple[Record, int, int]
_Item: TypeAlias = _Queued | threading.Event | None


class AuditWriter:
    """Writes records, as they may be shown, to all `sinks`; the first one is the primary.

    Args:
        sinks: where each record goes; they are closed with the writer.
        fallback: the sink for records that no other sink took; by default stdout, unless it is among the sinks.
        queue_size: maximum number of waiting records; further ones are dropped.
        queue_bytes: bytes in JSON that waiting records may have, about; further ones are dropped.
        on_failure: with `fallback`, records are written elsewhere while the primary fails; with `deny`, `submit`
            returns False, and records that were accepted before are kept until the primary works.
        on_drop: called with the reason and the number of lost records, on any thread.
        on_error: called with a sink's name and each of its errors, on the writer's thread.
        linger: seconds that the thread waits before it works when a record comes, to leave the processor to the loop.
        backoff: makes the pauses between attempts at a sink that fails.
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
        backoff: Callable[[], Backoff] = lambda: Backoff(base=0.5, cap=30.0, least=0.5),
    ) -> None:
        if not sinks:
            raise ValueError("an audit writer needs at least one sink")
        self._workers = [SinkWorker(sink, backoff(), on_error) for sink in sinks]
        if fallback is None and not any(isinstance(sink, StreamSink) for sink in sinks):
            fallback = StreamSink()
        self._fallback = SinkWorker(fallback, backoff(), on_error) if fallback else None
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
            weight = len(orjson.dumps(record, default=str))
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
            worker.miss(self._lost)
            worker.close()

    def _holds(self) -> bool:
        """Whether records stay in the queue, because only the primary may take them."""
        return self._denies and not self.healthy and not self._closing.is_set()

    def _next(self) -> _Item:
        with contextlib.suppress(queue.Empty):
            return self._queue.get_nowait()
        waits = [wait for worker in self._workers if (wait := worker.wait) is not None]
        item = self._queue.get(timeout=min(waits, default=None))
        self._hurry.wait(self._linger)
        return item

    def _retry(self) -> None:
        for worker in self._workers:
            worker.retry()

    def _handle(self, item: _Queued) -> None:
        record, lost, weight = item
        with self._guard:
            self._weight -= weight
        for worker in self._all_workers():
            worker.miss(lost)
        try:
            self._write(record)
        except Exception as error:  # noqa: BLE001  # a record that is no JSON must not end the writing of the next ones
            _log.error("audit record lost", extra={"error": type(error).__name__})
            self._on_drop("invalid", 1)
            for worker in self._all_workers():
                worker.miss(1)

    def _write(self, record: Record) -> None:
        taken = [worker.write(record) for worker in self._workers]
        if not any(taken) and (self._fallback is None or not self._fallback.write(record)):
            self._on_drop("unwritten", 1)

    def _discard(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                if isinstance(self._queue.get_nowait(), tuple):
                    self._lost += 1
                    self._on_drop("closed", 1)

    def _all_workers(self) -> list[SinkWorker]:
        return [*self._workers, self._fallback] if self._fallback else self._workers
