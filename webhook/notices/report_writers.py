"""Writes reports: one object in each namespace shows which jobs were corrected, warned about or denied, and why.

An admission only queues its record here. One task writes at a limited rate: it reads the report of a
namespace, merges the decisions, and replaces the report if it has not changed (compare and swap). Server-side apply
would not work: the results are one atomic list to the API server, so the last of two replicas would remove the other's
results. The object itself is the memory: it outlives replicas, and is deleted with its namespace. It has no owner,
since at CREATE a job has no uid, and a denied one never gets one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from muster import backoffs
from muster.audit.record_schema import Record
from muster.kube import transports
from muster.webhook.cluster import writes
from muster.webhook.notices import outcomes, report_objects
from muster.webhook.notices.outcomes import Subject
from muster.webhook.notices.report_objects import Format

__all__ = ["Pending", "ReportPace", "Reports"]

_logger = logging.getLogger(__name__)
_REMEMBERED = 4096
_LAST = 2.0  # seconds to write what waits when the service ends
_HOPELESS = frozenset({400, 413, 422})


class _OccupiedError(ValueError):
    """A report with Muster's name exists that Muster did not make."""


@dataclass(frozen=True, slots=True)
class ReportPace:
    """How many reports are written.

    Attributes:
        room: how many records of all namespaces may wait.
        pause: seconds between two reports.
        settle: seconds from the first decision to its report; most jobs get several decisions at once.
        quiet: seconds between two writes of one report.
        first, longest: bounds of the pause after a failure and after many failures, in seconds.
    """

    room: int = 1024
    pause: float = 0.2
    settle: float = 1.0
    quiet: float = 10.0
    first: float = 1.0
    longest: float = 120.0


class Pending:
    """Records that wait, by namespace and job, the newest of each.

    A decision beyond a namespace's share would not fit into its report either, so dropping it loses nothing; a decision
    is lost only when there is no room at all.

    Args:
        share: the most records of one namespace.
        room: the most records in total.
    """

    def __init__(self, share: int, room: int) -> None:
        self._share = share
        self._room = room
        self._spaces: dict[str, dict[Subject, tuple[int, Record]]] = {}  # with weights, the oldest first
        self._count = 0

    def __iter__(self) -> Iterator[str]:
        """The namespaces with waiting records, the longest waiting first."""
        return iter(self._spaces)

    def __len__(self) -> int:
        return self._count

    def add(self, record: Record) -> bool:
        """Queue a record; return False when there is no room."""
        namespace, about, heavy = record["object"]["namespace"], outcomes.subject(record), outcomes.weight(record)
        space = self._spaces.get(namespace, {})
        _, there = space.get(about, (0, None))
        if there is None and self._count >= self._room:
            return False
        if there is not None and not heavy and about.phase == "mutate" and there["decision"] != "error":
            return True  # the second call of one admission; the first reported the changes
        before = len(space)
        space.pop(about, None)
        space[about] = (heavy, record)
        if len(space) > self._share:
            del space[min(space, key=lambda each: space[each][0])]  # the oldest of the lightest
        self._spaces[namespace] = space
        self._count += len(space) - before
        return True

    def take(self, namespace: str) -> list[Record]:
        """Remove the waiting records of a namespace from the queue, and return them."""
        taken = [record for _, record in self._spaces.pop(namespace, {}).values()]
        self._count -= len(taken)
        return taken

    def put_back(self, records: list[Record]) -> int:
        """Queue records again, except for jobs that have a newer one now; return how many found no room."""
        older = [each for each in records if not self._has(each)]
        return sum(not self.add(each) for each in older)

    def _has(self, record: Record) -> bool:
        return outcomes.subject(record) in self._spaces.get(record["object"]["namespace"], {})


class Reports:
    """Writes one report for each namespace.

    Args:
        access: sends requests to the API server; needs the verbs get, create and update on the format's objects.
        form: the format.
        dropped: called with the number of decisions that no report will contain.
        limits: the limits of a report.
        pace: how many reports are written.
        clock: returns seconds since 1970.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and what a test sets
        self,
        access: writes.Writes,
        form: Format,
        dropped: Callable[[int], None] = lambda _count: None,
        limits: report_objects.Limits | None = None,
        pace: ReportPace | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._access = access
        self._form = form
        self._dropped = dropped
        self._limits = limits or report_objects.Limits()
        self._pace = pace or ReportPace()
        self._clock = clock
        self._pending = Pending(self._limits.results, self._pace.room)
        self._since: dict[str, float] = {}
        self._written: OrderedDict[str, float] = OrderedDict()
        self._backoff = backoffs.Backoff(base=self._pace.first, cap=self._pace.longest)
        self._news = asyncio.Event()
        self._failing = False

    def take(self, record: Record) -> None:
        """Queue a record of a new job; it is ignored when it is of a dry run or skipped. Never waits."""
        if record["operation"] != "CREATE" or record["dryRun"] or record["decision"] == "skipped":
            return
        if self._pending.add(record):
            self._since.setdefault(record["object"]["namespace"], time.monotonic())
            self._news.set()
        else:
            self._dropped(1)

    async def run(self) -> None:
        """Write queued decisions until cancelled; then write what still waits once more, within two seconds."""
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
        """Return the namespace to write next, or None and the seconds until one is due."""
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
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _turn(self, namespace: str) -> float:
        """Write the report of a namespace, or postpone it; return the seconds to wait before the next."""
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
        """Warn once until a write succeeds again; a namespace that is being deleted needs no warning."""
        level = logging.DEBUG if self._failing or writes.is_of_no_namespace(error) else logging.WARNING
        self._failing = self._failing or not writes.is_of_no_namespace(error)
        more = {"namespace": namespace, "problem": str(error), "advice": self._advice(error)}
        _logger.log(level, "report not written", extra=more)

    def _advice(self, error: Exception) -> str:
        status, kind = getattr(error, "status", 0), self._form.kind
        if status == 404 and not _is_hopeless(error):
            return f"install the CustomResourceDefinition {kind.plural}.{kind.group}: {self._form.brought}"
        if status == 403:
            return f"apply manifests/overlays/production/{self._form.rights}, or set config.audit.reports of the chart"
        return "Muster tries again" if not _is_hopeless(error) else "the decisions are in the audit log"

    async def _write(self, namespace: str, records: list[Record]) -> None:
        """Put decisions into a report; a report that would be empty is not created."""
        fresh = [outcomes.said(record) for record in records]
        kind, most = self._form.kind, self._limits.results

        async def changed(present: dict[str, Any] | None) -> dict[str, Any] | None:
            if present is not None and not report_objects.is_ours(present):
                raise _OccupiedError(
                    f"{kind.served} {namespace}/{report_objects.NAME} is not Muster's; rename or delete it"
                )
            there = (present or {}).get("results") or ()
            results = await asyncio.to_thread(report_objects.folded, there, fresh, self._limits, self._clock())
            document = report_objects.rendered(self._form, present, namespace, results, most)
            return document if present or results else None

        await self._access.swap(kind, namespace, report_objects.NAME, changed)


def _is_hopeless(error: Exception) -> bool:
    """Whether the same write would be refused again, because of this namespace or this document."""
    return (
        not isinstance(error, transports.TransportError)
        or getattr(error, "status", 0) in _HOPELESS
        or writes.is_of_no_namespace(error)
    )
