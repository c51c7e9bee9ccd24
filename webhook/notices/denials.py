"""Events on denials: `kubectl get events` says which job was refused, and why, to those who did not see the answer.

A job that a pipeline or another controller creates is refused where nobody looks. Its Event stands in the job's
namespace, about an object that does not exist: by kind and name, without a uid. An admission only leaves its record
here; one task redacts, writes and counts. The same denial again raises the count of its Event, a few Events are written
in a second at most, and what finds no room is counted and dropped.
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

from strategies.documents import names
from webhook.audit.records import Record, RecordedFinding
from webhook.cluster import events, kinds, transports, writes

__all__ = ["REASON", "Denials", "EventPace"]

REASON = "MusterDenied"

_logger = logging.getLogger(__name__)
_API_VERSIONS = {"TrainJob": names.TRAINER_API_VERSION, "JobSet": names.JOBSET_API_VERSION}
_SHOWN = 3  # findings in a message
_REMEMBERED = 4096
_UNFIT = re.compile(r"[^a-z0-9-]+")

_Key: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class EventPace:
    """How much is written.

    Attributes:
        room: different denials that may wait.
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
    """Writes Events on denied jobs.

    Args:
        access: to the API server; needs create and patch on events.
        redactor: takes the secrets out of a record.
        dropped: told how many denials found no Event.
        pace: how much is written.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        access: writes.Writes,
        redactor: Callable[[Record], Record],
        dropped: Callable[[int], None] = lambda _count: None,
        pace: EventPace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._redactor = redactor
        self._dropped = dropped
        self._pace = pace or EventPace()
        self._clock = clock
        self._own = secrets.token_hex(8)  # each replica counts in Events of its own
        self._waiting: OrderedDict[_Key, _Waiting] = OrderedDict()
        self._written: OrderedDict[_Key, _Written] = OrderedDict()
        self._news = asyncio.Event()
        self._failing = False

    def take(self, record: Record) -> None:
        """Leave a record here; one that is no denial of a new job, or of a dry run, is passed over. Never waits."""
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
        """Write what is there, for ever."""
        while True:
            self._news.clear()
            key, seconds = self._next()
            if key is None:
                await self._news_within(seconds)
                continue
            await self._write(key, self._waiting.pop(key))
            await asyncio.sleep(self._pace.pause)

    def _next(self) -> tuple[_Key | None, float | None]:
        """Return a denial whose turn it is, or none and the seconds until there is one."""
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
            await asyncio.wait_for(self._news.wait(), seconds)
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
        """Warn once until it goes well again; a namespace that ends is nothing to warn about."""
        gone = writes.is_of_no_namespace(error)
        level = logging.DEBUG if self._failing or gone else logging.WARNING
        self._failing = self._failing or not gone
        _logger.log(level, "event on a denial not written", extra={"problem": str(error)})

    async def _counted(self, key: _Key, waiting: _Waiting, written: _Written | None) -> tuple[str, int]:
        """Raise the count of the Event that there is, or make one; return its name and count."""
        kind, namespace, job, _ = key
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
        about = events.Regarding(_API_VERSIONS.get(kind, ""), kind, namespace, job, "")
        document = events.document(about, REASON, _message(self._redactor(waiting.record)), "Warning", "admission")
        metadata = {"name": self._name(key), "namespace": namespace}
        created = {**document, "metadata": metadata, "count": waiting.hits}
        made = await self._access.create(kinds.EVENT, created)
        return str(made["metadata"]["name"]), waiting.hits

    def _name(self, key: _Key) -> str:
        moment = f"{self._own} {self._clock()} {key}"
        digest = hashlib.sha256(moment.encode("utf-8", "backslashreplace")).hexdigest()[:16]
        job = _UNFIT.sub("-", key[2].lower())[:100].strip("-")
        return f"{job or 'job'}.{digest}"


def _key(record: Record) -> _Key:
    subject = record["object"]
    name = subject["name"] or f"{subject.get('generateName', '')}*"
    said = tuple((each["field"], each["message"]) for each in _errors(record))
    return subject["kind"], subject["namespace"], name, said


def _errors(record: Record) -> list[RecordedFinding]:
    return [each for each in record["findings"] if each["severity"] == "error"]


def _message(record: Record) -> str:
    """Return the findings that denied a job, without values: the message is for the whole namespace."""
    found = _errors(record)
    told = "; ".join(f"{each['field']}: {each['message']} ({each['rule']})" for each in found[:_SHOWN])
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"refused for {record['user']['username'] or 'nobody'}: {told}{more}"
