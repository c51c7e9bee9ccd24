"""A worker writes to one sink, with its own chain, failures and retries.

Sinks fail independently, and one may have records that another lost, so each worker seals its own chain. While its
sink fails, a worker keeps the first record that could not be written and retries it with growing pauses and jitter, so
that it recovers even without new records. Later records are counted, and the next record that is written says how many
are missing.

A log that processes continue has records of its own: `log_started` with the end that the process before left,
`log_stopped`, and `log_damaged` when lines that were written are found to be gone.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import time
from collections.abc import Callable
from pathlib import Path

from muster.audit.anchor_notes import Anchor, Ends
from muster.audit.chain import Chain, ChainError, parse
from muster.audit.record_schema import EventDetails, Record, RecordedObject, event, event_name
from muster.audit.sinks import Sink
from muster.backoffs import Backoff

__all__ = ["SinkWorker"]

_log = logging.getLogger(__name__)

# After this many lines that are not records, the file is not one that Muster should continue.
_LINES_LOOKED_AT = 1000


class SinkWorker:
    """Seals records for `sink` and writes them; used by one thread, only `failing` and `ends` are read by others.

    `on_error` is called with each error of the sink, on that thread.
    """

    def __init__(
        self,
        sink: Sink,
        backoff: Backoff,
        on_error: Callable[[str, Exception], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._backoff = backoff
        self._on_error = on_error
        self._clock = clock
        self._chain: Chain | None = None
        self._first: Anchor | None = None
        self._last = Chain()
        self._end = ""  # how the process before ended, where it wrote this log
        self._pending: tuple[Record, int] | None = None
        self._due = 0.0
        self._dropped = 0

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._backoff.failures > 0

    @property
    def ends(self) -> Ends | None:
        """Return what was written of the chain, None before the first record."""
        first, last = self._first, self._last
        return Ends(self._sink.name, first, Anchor(last.seq, last.prev)) if first and last.seq else None

    @property
    def wait(self) -> float | None:
        """Return the seconds until the next attempt, None when the sink works."""
        return max(0.0, self._due - self._clock()) if self.failing else None

    def write(self, record: Record) -> bool:
        """Write a record; return False on failure. TypeError when JSON cannot express the record, without effect."""
        if not self.retry():
            self._dropped += 1
            return False
        return self._attempt(record)

    def miss(self, count: int) -> None:
        """Note that `count` records were lost before they reached this worker."""
        self._dropped += count

    def retry(self, *, now: bool = False) -> bool:
        """Retry the kept record when it is due, or `now`; return whether the sink works."""
        if self._pending is None:
            return True
        if not now and self._clock() < self._due:
            return False
        (record, before), since = self._pending, self._dropped
        self._pending, self._dropped = None, before
        well = self._attempt(record)
        self._dropped += since
        return well

    def close(self) -> None:
        """Retry the kept record for the last time and close the sink."""
        if self.retry(now=True) and self._last.seq and self._sink.is_kept:
            self._attempt(self._event("log_stopped", {}))
        try:
            self._sink.close()
        except OSError as error:
            self._on_error(self._sink.name, error)

    def _attempt(self, record: Record) -> bool:
        try:
            chain = self._chain = self._chain or self._resume()
            if news := self._news():
                self._sink.write(chain.seal(news))
            self._sink.write(chain.seal(record, self._dropped))
        except TypeError:
            raise
        except Exception as error:  # noqa: BLE001  # sinks may come from elsewhere
            self._fail(record, error)
            return False
        self._end, self._dropped, self._last = "", 0, Chain(chain.seq, chain.prev)
        self._first = self._first or Anchor(chain.seq, chain.prev)
        self._recover()
        return True

    def _resume(self) -> Chain:
        """Continue the chain in the sink; lines of this process that are gone leave a visible gap."""
        found = self._found()
        if found.seq:
            self._first = self._first or Anchor(found.seq, found.prev)
        return found if found.seq >= self._last.seq else Chain(self._last.seq, self._last.prev)

    def _found(self) -> Chain:
        for number, line in enumerate(itertools.islice(self._sink.last_lines(), _LINES_LOOKED_AT)):
            try:
                found = Chain.resume_from(line)
            except ChainError as error:
                _log.warning("audit line skipped", extra={"sink": self._sink.name, "error": str(error)})
                continue
            if not self._last.seq and self._sink.is_kept:
                self._end = "unclean" if number or event_name(parse(line)) != "log_stopped" else "clean"
            return found
        return Chain()

    def _news(self) -> Record | None:
        """Return the record of what befell the log before the next record, None for nothing."""
        damage, last = self._sink.damage(), self._last
        if damage:
            if not self.failing:
                _log.warning("audit log damaged", extra={"sink": self._sink.name, "status": damage, "seq": last.seq})
                self._on_error(self._sink.name, OSError(f"the file was {damage}"))
            return self._event("log_damaged", {"record": f"{last.seq}:{last.prev}", "status": damage})
        return self._event("log_started", {"status": self._end}) if self._end else None

    def _event(self, name: str, details: EventDetails) -> Record:
        about: RecordedObject = {"kind": "AuditLog", "namespace": "", "name": Path(self._sink.name).name}
        return event(name, details, about, datetime.datetime.now(datetime.UTC))

    def _fail(self, record: Record, error: Exception) -> None:
        if not self.failing:
            _log.error("audit sink fails", extra={"sink": self._sink.name, "error": str(error)})
        self._due = self._clock() + self._backoff.delay()
        # It is not known how much was written, so the chain is resumed from what the sink has.
        self._chain = None
        self._pending, self._dropped = (record, self._dropped), 0
        self._on_error(self._sink.name, error)

    def _recover(self) -> None:
        if self.failing:
            _log.warning("audit sink works again", extra={"sink": self._sink.name, "failures": self._backoff.failures})
        self._backoff.reset()
