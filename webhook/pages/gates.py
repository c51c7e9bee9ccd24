"""Lets in who may read the log: the caller's token is judged by the cluster, and the verdict is kept for seconds.

A token comes as `Authorization: Bearer`, or as the password of `Basic` with any user name, which is what a browser can
send without a script. Tokens are never kept: verdicts are found by a digest with a key of this process.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, TypeAlias

from muster.kube import transports
from muster.webhook.cluster import callers

__all__ = ["Gate", "Verdict", "reading", "token_of"]

_log = logging.getLogger(__name__)

Verdict: TypeAlias = Literal["allowed", "forbidden", "unknown", "unanswered"]

_GROUP, _RESOURCE = "muster.dev", "auditlogs"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,8192}")
_LONGEST = 16_384
_KEPT_FOR = 10.0  # seconds; a token or a right that is taken away works for this long
_KEPT = 512
_AT_ONCE = 8  # questions to the API server
_WAITING = 64  # callers whose question waits; others are told to try again


def reading(namespace: str) -> callers.Right:
    """Return the right that reading the log of a namespace's Muster needs: get on auditlogs.muster.dev there."""
    return callers.Right("get", _GROUP, _RESOURCE, namespace)


class Gate:
    """Judges callers.

    Args:
        asked: asks the API server.
        right: what a caller must be allowed to do.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, asked: callers.Callers, right: callers.Right, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._asked = asked
        self._right = right
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, tuple[Verdict, float]] = OrderedDict()  # with the time until which it holds
        self._under_way: dict[bytes, asyncio.Task[Verdict]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    @property
    def wanted(self) -> str:
        """The right, in words."""
        return f"{self._right.verb} on {self._right.resource}.{self._right.group} in namespace {self._right.namespace}"

    async def judge(self, header: str) -> Verdict:
        """Return the verdict about the caller of a request by its Authorization header, "" when there is none."""
        token = token_of(header)
        if token is None:
            return "unknown"
        key = hashlib.blake2b(token.encode(), key=self._key).digest()
        verdict, until = self._kept.get(key, ("unknown", 0.0))
        if self._clock() < until:
            self._kept.move_to_end(key)
            return verdict
        task = self._under_way.get(key)  # one question for all requests with one token that come meanwhile
        if task is None:
            if len(self._under_way) >= _WAITING:
                return "unanswered"
            task = self._under_way[key] = asyncio.create_task(self._remembered(key, token))
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)

    async def _remembered(self, key: bytes, token: str) -> Verdict:
        async with self._turns:
            verdict = await self._judged(token)
        if verdict != "unanswered":
            self._kept[key] = (verdict, self._clock() + _KEPT_FOR)
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return verdict

    async def _judged(self, token: str) -> Verdict:
        try:
            caller = await self._asked.of_token(token)
            if caller is None:
                return "unknown"
            may = await self._asked.may(caller, self._right)
        except transports.TransportError as error:
            _log.warning("a caller of the audit page could not be judged", extra={"error": str(error)})
            return "unanswered"
        _log.info("a caller of the audit page was judged", extra={"user": caller.username[:300], "allowed": may})
        return "allowed" if may else "forbidden"


def token_of(header: str) -> str | None:
    """Return the token of an Authorization header: of Bearer, or the password of Basic; None when there is none."""
    scheme, _, given = header[:_LONGEST].partition(" ")
    token = given.strip()
    if scheme.lower() == "basic":
        try:
            token = base64.b64decode(token, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return None
    elif scheme.lower() != "bearer":
        return None
    return token if _TOKEN.fullmatch(token) else None
