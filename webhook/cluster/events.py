"""Events: what `kubectl describe` shows of a decision about a pod or a claim.

An Event is optional information and must never delay the work: one task sends Events from a queue of some hundred, and
what does not fit is counted and dropped. A text about one object is sent once; a new text at most twice a minute.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from muster.kube import transports
from muster.webhook.cluster import kinds, writes

__all__ = ["EventRecorder", "Regarding", "document"]

_logger = logging.getLogger(__name__)
_ROOM = 512
_REMEMBERED = 4096
_PAUSE = 30.0  # seconds between two texts about one object for one reason
_LONGEST = 1024  # characters of a message, the API server's limit

Kind = Literal["Normal", "Warning"]


class Regarding(NamedTuple):
    """The object that an Event is about; `uid` is empty when the object does not exist."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class EventRecorder:
    """Sends Events.

    Args:
        access: sends requests to the API server.
        clock: returns monotonic seconds.
    """

    def __init__(self, access: writes.Writes, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        self._said: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()
        self._queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue(_ROOM)
        self.dropped = 0

    def say(self, regarding: Regarding, reason: str, message: str, kind: Kind = "Normal") -> bool:
        """Queue an Event; return False when it is a repetition or there is no room."""
        key, now = (regarding.uid, reason), self._clock()
        message = _cut(message)  # what is remembered and queued must not be as long as an author likes
        text, at = self._said.get(key, ("", -_PAUSE))
        if text == message or now - at < _PAUSE:
            return False
        try:
            self._queue.put_nowait(document(regarding, reason, message, kind))
        except asyncio.QueueFull:
            self.dropped += 1
            return False
        self._said[key] = (message, now)
        self._said.move_to_end(key)
        if len(self._said) > _REMEMBERED:
            self._said.popitem(last=False)
        return True

    async def run(self) -> None:
        """Send queued Events until cancelled; an Event that is refused is dropped."""
        while True:
            document = await self._queue.get()
            try:
                await self._access.create(kinds.EVENT, document)
            except transports.TransportError as error:
                self.dropped += 1
                _logger.debug("event not sent", extra={"problem": str(error)})


def document(regarding: Regarding, reason: str, message: str, kind: Kind, part: str = "controllers") -> dict[str, Any]:
    """Return an Event (core/v1), whose name the API server completes.

    Args:
        regarding: the object that it is about.
        reason: one word.
        message: for people, cut at the API server's limit.
        kind: `Normal`, or `Warning` when somebody should act.
        part: the part of Muster that reports.
    """
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{regarding.name[:200]}.", "namespace": regarding.namespace},
        "involvedObject": {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            **({"uid": regarding.uid} if regarding.uid else {}),
        },
        "reason": reason,
        "message": _cut(message),
        "type": kind,
        "source": {"component": "muster"},
        "reportingComponent": f"muster.dev/{part}",
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _cut(message: str) -> str:
    return message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"
