"""Events on denials: `kubectl get events` shows which job was denied, and why, to people who did not see the answer.

When a pipeline or another controller creates a job, nobody sees that it is denied. The Event is in the job's namespace
and is about an object that does not exist: by kind and name, without a uid. An admission only queues its record here;
one task writes it. A repeated denial raises the count of its Event, at most a few Events are written in a
second, and denials for which there is no room are counted and dropped.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from muster.audit.record_schema import Record, RecordedFinding, job_name
from muster.kube import transports
from muster.strategies.documents import names
from muster.webhook.cluster import events, kinds, writes

__all__ = ["REASON", "Denials", "EventPace"]

REASON = "MusterDenied"

_logger = logging.getLogger(__name__)
_SHOWN = 3  # findings in a message
_REMEMBERED = 4096
_UNFIT = re.compile(r"[^a-z0-9-]+")

_Key: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class EventPace:
    """How many Events are written.

    Attributes:
        room: how many different denials may wait.
        pause: seconds between two writes.
        quiet: seconds between two writes of one Event.
    """

    room: int = 512
    pause: float = 0.2
    quiet: float = 10.0


@dataclass(slots=True)
class _Waiting:
    record: Record
    hits: int = 1


@dataclass(frozen=True, slots=True)
class _Written:
    name: str
    count: int
    at: float


class Denials:
    """Writes Events about denied jobs.

    Args:
        access: sends requests to the API server; needs the verbs create and patch on events.
        dropped: called with the number of denials without an Event.
        pace: how many Events are written.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        access: writes.Writes,
        dropped: Callable[[int], None] = lambda _count: None,
        pace: EventPace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._dropped = dropped
        self._pace = pace or EventPace()
        self._clock = clock
        self._own = secrets.token_hex(8)  # each replica counts in Events of its own
        self._waiting: OrderedDict[_Key, _Waiting] = OrderedDict()
        self._written: OrderedDict[_Key, _Written] = OrderedDict()
        self._news = asyncio.Event()
        self._failing = False

    def take(self, record: Record) -> None:
        """Queue a record; it is ignored unless it denies a new job and is not of a dry run. Never waits."""
        if record["decision"] != "denied" or record["operation"] != "CREATE" or record["dryRun"]:
            return
        key = _key(record)
        if there := self._waiting.get(key):
            there.hits += 1
        elif len(self._waiting) >= self._pace.room:
            self._dropped(1)
        else:
            self._waiting[key] = _Waiting(record)
            self._news.set()

    async def run(self) -> None:
        """Write queued denials until cancelled."""
        while True:
            self._news.clear()
            key, seconds = self._next()
            if key is None:
                await self._news_within(seconds)
                continue
            await self._write(key, self._waiting.pop(key))
            await asyncio.sleep(self._pace.pause)

    def _next(self) -> tuple[_Key | None, float | None]:
        """Return the denial to write next, or None and the seconds until one is due."""
        now, soonest = self._clock(), None
        for key in self._waiting:
            written = self._written.get(key)
            seconds = written.at + self._pace.quiet - now if written else 0.0
            if seconds <= 0:
                return key, 0.0
            soonest = seconds if soonest is None else min(soonest, seconds)
        return None, soonest

    async def _news_within(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _write(self, key: _Key, waiting: _Waiting) -> None:
        written = self._written.get(key)
        try:
            name, count = await self._counted(key, waiting, written)
        except (transports.TransportError, ValueError, TypeError) as error:
            self._dropped(waiting.hits)
            self._say(error)
            return
        self._failing = False
        self._written[key] = _Written(name, count, self._clock())
        self._written.move_to_end(key)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _say(self, error: Exception) -> None:
        """Warn once until a write succeeds again; a namespace that is being deleted needs no warning."""
        gone = writes.is_of_no_namespace(error)
        level = logging.DEBUG if self._failing or gone else logging.WARNING
        self._failing = self._failing or not gone
        _logger.log(level, "event on a denial not written", extra={"problem": str(error)})

    async def _counted(self, key: _Key, waiting: _Waiting, written: _Written | None) -> tuple[str, int]:
        """Raise the count of the existing Event, or create one; return its name and count."""
        kind, namespace, *_ = key
        if written is not None:
            count = written.count + waiting.hits
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            body = {"count": count, "lastTimestamp": now}
            try:
                await self._access.patch(kinds.EVENT, namespace, written.name, body)
            except transports.RefusedError as error:
                if error.status != 404:  # Events are deleted after an hour
                    raise
            else:
                return written.name, count
        shown = waiting.record
        about = events.Regarding(names.API_VERSIONS.get(kind, ""), kind, namespace, job_name(shown), "")
        document = events.document(about, REASON, _message(shown), "Warning", "admission")
        metadata = {"name": self._name(key, about.name), "namespace": namespace}
        created = {**document, "metadata": metadata, "count": waiting.hits}
        made = await self._access.create(kinds.EVENT, created)
        return str(made["metadata"]["name"]), waiting.hits

    def _name(self, key: _Key, shown: str) -> str:
        moment = f"{self._own} {self._clock()} {key}"
        digest = hashlib.sha256(moment.encode("utf-8", "backslashreplace")).hexdigest()[:16]
        job = _UNFIT.sub("-", shown.lower())[:100].strip("-")
        return f"{job or 'job'}.{digest}"


def _key(record: Record) -> _Key:
    subject = record["object"]
    said = tuple((each["field"], each["message"]) for each in _errors(record))
    return subject["kind"], subject["namespace"], job_name(record), said


def _errors(record: Record) -> list[RecordedFinding]:
    return [each for each in record["findings"] if each["severity"] == "error"]


def _message(record: Record) -> str:
    """Return the findings that denied a job, without values: the message is for the whole namespace."""
    found = _errors(record)
    told = "; ".join(f"{each['field']}: {each['message']} ({each['rule']})" for each in found[:_SHOWN])
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"refused for {record['user']['username'] or 'nobody'}: {told}{more}"
