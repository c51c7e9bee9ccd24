"""Reads answers of the API server, whole or line by line, up to a fixed size.

A cache inside an admission webhook must survive an absurdly large object in the cluster, so every body and every line
has a limit, and an answer that does not look like Kubernetes' is reported as an error here. A parsed answer takes up to
25 times its size, so large ones are read one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import orjson

from muster.kube import transports

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

__all__ = ["LARGE", "SHOWN", "Turn", "checked", "lines", "parsed", "read", "text"]

_MAX_ERROR = 64 * 1024
SHOWN = 300
"""Characters of a refusal's message that are kept by default."""
LARGE = 512 * 1024
"""Bytes from which a body or a line waits for its turn."""


class Turn:
    """Lets one reader at a time continue with a large body.

    It is held from `LARGE` bytes on until the answer is parsed and its reader waits for something else. Meanwhile the
    others leave their answers with the API server.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def holder(self) -> AsyncIterator[_Holder]:
        """Enter a reader, which does not have the turn yet; it loses the turn when the context ends."""
        made = _Holder(self._lock)
        try:
            yield made
        finally:
            made.settle(0)


class _Holder:
    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._has = False

    async def grown(self, size: int) -> None:
        """Wait for the turn when so many bytes are in memory."""
        if size > LARGE and not self._has:
            await self._lock.acquire()
            self._has = True

    def settle(self, size: int) -> None:
        """Give the turn back when only so many bytes are left."""
        if self._has and size <= LARGE:
            self._has = False
            self._lock.release()


async def read(
    response: transports.Response, limit: int, what: str, turn: Turn | None = None, most: int | None = None
) -> dict[str, Any]:
    """Return the body as a JSON object.

    Args:
        response: an answer, whose status is not checked here; see `checked`.
        limit: the most bytes that are read.
        what: how errors call the body, such as `a page of trainjobs`.
        turn: what readers of large bodies share.
        most: the most values that are parsed, as far as commas and brackets tell.

    Raises:
        OversizedError: the body is longer, or holds more values.
        MalformedError: the body is not a JSON object.
        UnreachableError: the connection broke.
    """
    async with (turn or Turn()).holder() as holder:
        body = await _collected(response, limit, what, holder)
        if most is not None and sum(map(body.count, (b",", b"[", b"{"))) > most:
            raise transports.OversizedError(what, limit)
        return parsed(body, what)


async def text(response: transports.Response, limit: int, what: str) -> str:
    """Return the body as text, whatever it contains; arguments and errors are those of `read`."""
    return (await _collected(response, limit, what)).decode(errors="replace")


async def lines(
    response: transports.Response, limit: int, what: str, turn: Turn | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an endless body without line ends; an incomplete last line is dropped.

    Chunks may end anywhere, also inside a character. Close the iterator when it is not read to its end.

    Raises:
        OversizedError: a line is longer than `limit` bytes.
        UnreachableError: the connection broke.
    """
    buffer = bytearray()
    async with (turn or Turn()).holder() as holder:
        async for chunk in response.chunks():
            searched = len(buffer)
            buffer += chunk
            await holder.grown(len(buffer))
            start = 0
            while (end := buffer.find(b"\n", max(start, searched))) >= 0:
                if end - start > limit:
                    raise transports.OversizedError(what, limit)
                if end > start:
                    yield bytes(memoryview(buffer)[start:end])
                start = end + 1
            del buffer[:start]
            if len(buffer) > limit:
                raise transports.OversizedError(what, limit)
            holder.settle(len(buffer))


def parsed(body: bytes | bytearray, what: str) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        MalformedError: the text is not a JSON object.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise transports.MalformedError(
            f"{what} is not JSON: {error}; check that the address is that of an API server"
        ) from error
    if not isinstance(value, dict):
        raise transports.MalformedError(f"{what} is JSON {type(value).__name__}, not an object")
    return value


async def checked(response: transports.Response, shown: int = SHOWN) -> transports.Response:
    """Return the response when it is a success.

    Args:
        response: an answer; its body is read only when it is not a success.
        shown: characters of the message that are kept.

    Raises:
        RefusedError: it is not a success; the message is that of the Status object in the body, when there is one.
        UnreachableError: the connection broke while the message was read.
    """
    if 200 <= response.status < 300:
        return response
    raise transports.RefusedError(response.status, await _message(response, shown), _retry_after(response))


async def _collected(response: transports.Response, limit: int, what: str, holder: _Holder | None = None) -> bytearray:
    body = bytearray()
    async for chunk in response.chunks():
        body += chunk
        if len(body) > limit:
            raise transports.OversizedError(what, limit)
        if holder is not None:
            await holder.grown(len(body))
    return body


async def _message(response: transports.Response, shown: int) -> str:
    """Return the Status object's message, or the start of what a proxy sent instead."""
    try:
        body = await _collected(response, _MAX_ERROR, "the error")
    except transports.OversizedError:
        return "a long answer that is not a Status object"
    try:
        message = parsed(body, "the error").get("message")
    except transports.MalformedError:
        message = body.decode(errors="replace")
    return " ".join(str(message or "no message").split())[:shown]


def _retry_after(response: transports.Response) -> float | None:
    """Parse the header's form in seconds; the API server never sends the form with a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None
