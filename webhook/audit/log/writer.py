"""Takes records from the event loop without blocking it, and writes them on its own thread.

An admission must not wait for a disk or for the reader of stdout. So `submit` only puts a record into a bounded queue.
Redacting, hashing and writing happen on the writer's thread, a little later, so that they do not delay the answer to
the request. Every loss is counted, and the next record that is written reports it.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, cast

from muster.webhook.audit.log import weights
from muster.webhook.audit.log.lanes import Lane, Retry
from muster.webhook.audit.log.notes import Ends
from muster.webhook.audit.log.sinks import BatchSink, Sink, StreamSink
from muster.webhook.audit.records import Record
from muster.webhook.audit.redaction import concealments, redaction

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
_TOGETHER = 64  # records that are written at once, if as many wait
_NONE = cast("Record", {})


class AuditWriter:
    """Writes records to all `sinks`; the first one is the primary.

    Args:
        sinks: where each record goes; they are closed with the writer.
        fallback: the sink for records that no other sink took; by default stdout, unless it is among the sinks.
        queue_size: maximum number of waiting records; further ones are dropped.
        queue_bytes: memory that waiting records may take, about; further ones are dropped.
        on_failure: with `fallback`, records are written elsewhere while the primary fails; with `deny`, `submit`
            returns False, and records that were accepted before are kept until the primary works.
        redactor: returns a record without its secrets; it does not change its argument.
        on_drop: called with the reason and the number of lost records, on any thread.
        on_conceal: called for each record that is written without its body, because its redaction failed.
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
        redactor: Callable[[Record], Record] = redaction.redact,
        on_drop: Callable[[DropReason, int], None] = lambda _reason, _count: None,
        on_conceal: Callable[[], None] = lambda: None,
        on_error: Callable[[str, Exception], None] = lambda _name, _error: None,
        linger: float = 0.01,
        retry: Retry | None = None,
    ) -> None:
        if not sinks:
            raise ValueError("an audit writer needs at least one sink")
        retry = retry or Retry()
        self._lanes = [Lane(sink, retry, on_error) for sink in sinks]
        if fallback is None and not any(isinstance(sink, StreamSink) for sink in sinks):
            fallback = StreamSink()
        self._fallback = Lane(fallback, retry, on_error) if fallback else None
        self._denies = on_failure == "deny"
        self._redactor = redactor
        self._on_drop = on_drop
        self._on_conceal = on_conceal
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
        return not self._lanes[0].failing

    @property
    def ends(self) -> list[Ends | None]:
        """What was written of each chain, always in the same order; None for one without a record of this process."""
        return [lane.ends for lane in self._all_lanes()]

    def submit(self, record: Record) -> bool:
        """Queue a record, which must not be changed afterwards; never blocks.

        Returns:
            False when the record is lost and `on_failure` is `deny`: then the admission must be refused. With
                `fallback`, a lost record is counted and the admission continues.
        """
        reason, weight = self._refusal(), 0
        if reason is None and self._queue.qsize() >= _SHORT_QUEUE:
            weight = weights.weight(record, self._queue_bytes)
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
                self._closing.wait(self._lanes[0].wait)
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
                self._report(item)
            else:
                self._handle(item)
        self._finish()

    def _holds(self) -> bool:
        """Whether records stay in the queue, because only the primary may take them."""
        return self._denies and not self.healthy and not self._closing.is_set()

    def _next(self) -> _Item:
        if self._waiting:
            return self._waiting.popleft()
        with contextlib.suppress(queue.Empty):
            item = self._queue.get_nowait()
            if self._together and self._queue.qsize() < _SHORT_QUEUE:
                self._hurry.wait(self._linger)  # what comes meanwhile is written with it
            return item
        waits = [wait for lane in self._lanes if (wait := lane.wait) is not None]
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
        items = itertools.islice(self._waiting, _TOGETHER - 1)
        return list(itertools.takewhile(_follows, items))  # type: ignore[arg-type]  # those that follow are records

    def _retry(self) -> None:
        for lane in self._lanes:
            lane.retry()

    def _report(self, item: threading.Event) -> None:
        if not self._closing.is_set():
            self._hurry.clear()
        item.set()

    def _handle(self, first: _Queued) -> None:
        """Write a record, and those that wait behind it: as many as a sink takes at once, the others one by one."""
        for lane in self._all_lanes():
            lane.miss(first[1])
        items = [first, *self._following()]
        clean = list(itertools.takewhile(bool, (self._redacted(each[0]) for each in items)))
        counts = [lane.write_all(clean) if len(clean) > 1 else 0 for lane in self._lanes]
        for index, item in enumerate(items):
            if index and (self._holds() or not self._waiting):  # `close` may have given them up
                return
            if index:
                self._waiting.popleft()
            with self._guard:
                self._weight -= item[2]
            left = [lane for lane, count in zip(self._lanes, counts, strict=True) if index >= count]
            if left:
                self._handle_alone(item[0], clean[index] if index < len(clean) else None, left)

    def _redacted(self, record: Record) -> Record:
        """Return a record without its secrets, an empty one where its redaction fails."""
        try:
            return self._redactor(record)
        except Exception:  # noqa: BLE001  # it fails again, alone, and is told then
            return _NONE

    def _handle_alone(self, record: Record, clean: Record | None, lanes: Sequence[Lane]) -> None:
        try:
            self._write_without_secrets(record, clean, lanes)
        except Exception as error:  # noqa: BLE001  # one that cannot be written must not end the writing of all others
            _log.error("audit record lost", extra={"error": type(error).__name__})  # see _conceal
            self._on_drop("invalid", 1)
            for lane in self._all_lanes():
                lane.miss(1)

    def _write_without_secrets(self, record: Record, clean: Record | None, lanes: Sequence[Lane]) -> None:
        try:
            self._write(clean or self._redactor(record), lanes)
        except Exception as error:  # noqa: BLE001  # whatever fails, its author must not erase the record with it
            self._write(self._conceal(record, error), lanes)

    def _conceal(self, record: Record, error: Exception) -> Record:
        """Return the head of a record; the text of the error, which may quote a secret, is not told."""
        why = f"its redaction failed with {type(error).__name__}"
        clean = concealments.concealed(record, why)
        _log.error("audit record concealed", extra={"uid": clean.get("uid"), "error": type(error).__name__})
        self._on_conceal()
        return clean

    def _write(self, record: Record, lanes: Sequence[Lane]) -> None:
        taken = [lane.write(record) for lane in lanes]
        if any(taken) or len(lanes) < len(self._lanes):
            return
        if self._fallback is None or not self._fallback.write(record):
            self._on_drop("unwritten", 1)

    def _discard(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                if isinstance(self._queue.get_nowait(), tuple):
                    self._on_drop("closed", 1)
        with contextlib.suppress(IndexError):
            while True:
                if isinstance(self._waiting.popleft(), tuple):
                    self._on_drop("closed", 1)

    def _finish(self) -> None:
        for lane in self._all_lanes():
            lane.close()

    def _all_lanes(self) -> list[Lane]:
        return [*self._lanes, self._fallback] if self._fallback else self._lanes


def _follows(item: _Item) -> bool:
    return isinstance(item, tuple) and not item[1]
