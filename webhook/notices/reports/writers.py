"""Reports: who looks after a namespace sees in one object which jobs were corrected, warned about or refused, and why.

An admission only leaves its record here. One task redacts and writes, paced: the report of a namespace is read, the
decisions are folded in, and it is replaced if nobody was faster (compare and swap). Server-side apply would not do: the
results are one list to the API server, so the last of two replicas would take away what the other said. So the object
itself is the memory: it outlives replicas, and ends with its namespace. It has no owner, since at CREATE a job has no
uid, and a refused one never gets any.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from webhook import backoffs
from webhook.audit.records import Record
from webhook.cluster import transports, writes
from webhook.notices.reports import folds, formats, outcomes
from webhook.notices.reports.formats import Format
from webhook.notices.reports.queues import Pending

__all__ = ["ReportPace", "Reports"]

_logger = logging.getLogger(__name__)
_REMEMBERED = 4096
_TRIES = 4  # against other replicas
_LAST = 2.0  # seconds for what waits when the service ends
_HOPELESS = frozenset({400, 413, 422})


class _OccupiedError(ValueError):
    """Somebody else has a report of Muster's name there."""


@dataclass(frozen=True, slots=True)
class ReportPace:
    """How much is written.

    Attributes:
        room: records that may wait, of all namespaces.
        pause: seconds between two reports.
        settle: seconds from the first decision to the report that has it; most jobs get several decisions at once.
        quiet: seconds between two writes of one report.
        first, longest: bounds of the pause after a failure and after many, in seconds.
    """

    room: int = 1024
    pause: float = 0.2
    settle: float = 1.0
    quiet: float = 10.0
    first: float = 1.0
    longest: float = 120.0


class Reports:
    """Writes one report for each namespace.

    Args:
        access: to the API server; needs get, create and update on the format's objects.
        form: the format.
        redactor: takes the secrets out of a record.
        dropped: told how many decisions will stand in no report.
        limits: of a report.
        pace: how much is written.
        clock: seconds since 1970.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and what a test sets
        self,
        access: writes.Writes,
        form: Format,
        redactor: Callable[[Record], Record],
        dropped: Callable[[int], None] = lambda _count: None,
        limits: folds.Limits | None = None,
        pace: ReportPace | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._access = access
        self._form = form
        self._redactor = redactor
        self._dropped = dropped
        self._limits = limits or folds.Limits()
        self._pace = pace or ReportPace()
        self._clock = clock
        self._pending = Pending(self._limits.results, self._pace.room)
        self._since: dict[str, float] = {}
        self._written: OrderedDict[str, float] = OrderedDict()
        self._backoff = backoffs.Backoff(random.Random(), base=self._pace.first, cap=self._pace.longest)  # noqa: S311 - jitter
        self._news = asyncio.Event()
        self._failing = False

    def take(self, record: Record) -> None:
        """Leave a record here; one that is about no new job, of a dry run, or skipped, is passed over. Never waits."""
        if record["operation"] != "CREATE" or record["dryRun"] or record["decision"] == "skipped":
            return
        if self._pending.add(record):
            self._since.setdefault(record["object"]["namespace"], time.monotonic())
            self._news.set()
        else:
            self._dropped(1)

    async def run(self) -> None:
        """Write what is there, for ever; when cancelled, what waits is written once more, within two seconds."""
        try:
            while True:
                self._news.clear()
                namespace, seconds = self._next()
                if namespace is None:
                    await self._news_within(seconds)
                else:
                    await asyncio.sleep(await self._turn(namespace))
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST):
                    await self._end()

    async def _end(self) -> None:
        for namespace in tuple(self._pending):
            with contextlib.suppress(transports.TransportError, ValueError, TypeError):
                await self._write(namespace, self._pending.take(namespace))

    def _next(self) -> tuple[str | None, float | None]:
        """Return a namespace whose turn it is, or none and the seconds until there is one."""
        now, soonest = time.monotonic(), None
        for namespace in self._pending:
            settled = self._since.get(namespace, 0.0) + self._pace.settle
            rested = self._written.get(namespace, -self._pace.quiet) + self._pace.quiet
            if (seconds := max(settled, rested) - now) <= 0:
                return namespace, 0.0
            soonest = seconds if soonest is None else min(soonest, seconds)
        return None, soonest

    async def _news_within(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)

    async def _turn(self, namespace: str) -> float:
        """Write the report of a namespace, or see to it later; return seconds to wait before the next."""
        records = self._pending.take(namespace)
        self._since.pop(namespace, None)
        try:
            await self._write(namespace, records)
        except asyncio.CancelledError:
            self._pending.put_back(records)
            raise
        except (transports.TransportError, ValueError, TypeError) as error:
            return self._failed(namespace, records, error)
        self._backoff.reset()
        self._failing = False
        self._written[namespace] = time.monotonic()
        self._written.move_to_end(namespace)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)
        return self._pace.pause

    def _failed(self, namespace: str, records: list[Record], error: Exception) -> float:
        self._say(namespace, error)
        hopeless = _is_hopeless(error)
        if lost := len(records) if hopeless else self._pending.put_back(records):
            self._dropped(lost)
        if hopeless:
            return self._pace.pause
        return self._pace.pause + self._backoff.delay(getattr(error, "retry_after", None))

    def _say(self, namespace: str, error: Exception) -> None:
        """Warn once until it goes well again; a namespace that ends is nothing to warn about."""
        level = logging.DEBUG if self._failing or writes.is_of_no_namespace(error) else logging.WARNING
        self._failing = self._failing or not writes.is_of_no_namespace(error)
        more = {"namespace": namespace, "problem": str(error), "advice": self._advice(error)}
        _logger.log(level, "report not written", extra=more)

    def _advice(self, error: Exception) -> str:
        status, kind = getattr(error, "status", 0), self._form.kind
        if status == 404 and not _is_hopeless(error):
            return f"install the CustomResourceDefinition {kind.plural}.{kind.group}: {self._form.brought}"
        if status == 403:
            return f"apply manifests/overlays/production/{self._form.rights}; Helm's config.audit.reports brings it"
        return "it is tried again" if not _is_hopeless(error) else "what was to be reported is in the audit log"

    async def _write(self, namespace: str, records: list[Record]) -> None:
        fresh = []
        for record in records:
            fresh.append(outcomes.said(self._redactor(record)))
            await asyncio.sleep(0)  # admissions go first
        for last in (*[False] * (_TRIES - 1), True):
            try:
                await self._swap(namespace, fresh)
            except writes.ConflictError:
                if last:
                    raise
            else:
                return

    async def _swap(self, namespace: str, fresh: list[outcomes.Said]) -> None:
        """Put further decisions into a report, unless it changes meanwhile; one that would be empty is not made."""
        kind, most = self._form.kind, self._limits.results
        present = await self._access.get(kind, namespace, formats.NAME)
        if present is not None and not formats.is_ours(present):
            raise _OccupiedError(f"{kind.served} {namespace}/{formats.NAME} is not Muster's; rename or delete it")
        there = (present or {}).get("results") or ()
        results = await asyncio.to_thread(folds.folded, there, fresh, self._limits, self._clock())
        document = formats.rendered(self._form, present, namespace, results, most)
        if present is None:
            if results:
                await self._access.create(kind, document)
        elif document != present:
            await self._access.replace(kind, document)


def _is_hopeless(error: Exception) -> bool:
    """Whether the same would be refused again: what is wrong is this namespace or this document."""
    return (
        not isinstance(error, transports.TransportError)
        or getattr(error, "status", 0) in _HOPELESS
        or writes.is_of_no_namespace(error)
    )
