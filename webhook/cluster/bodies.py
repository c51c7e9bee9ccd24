"""Reads answers of the API server, whole or line by line, up to a fixed size.

A cache inside an admission webhook must survive an absurdly large object in the cluster, so every body and every line
has a limit, and an answer that does not look like Kubernetes' is reported as an error here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from webhook.cluster import transports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["SHOWN", "checked", "lines", "parsed", "read", "text"]

_MAX_ERROR = 64 * 1024
SHOWN = 300
"""Characters of a refusal's message that are kept by default."""


async def read(response: transports.Response, limit: int, what: str) -> dict[str, Any]:
    """Return the body as a JSON object.

    Args:
        response: an answer, whose status is not checked here; see `checked`.
        limit: the most bytes that are read.
        what: how errors call the body, such as `a page of trainjobs`.

    Raises:
        OversizedError: the body is longer.
        MalformedError: the body is not a JSON object.
        UnreachableError: the connection broke.
    """
    return parsed(await _collected(response, limit, what), what)


async def text(response: transports.Response, limit: int, what: str) -> str:
    """Return the body as text, whatever it contains; arguments and errors are those of `read`."""
    return (await _collected(response, limit, what)).decode(errors="replace")


async def lines(response: transports.Response, limit: int, what: str) -> AsyncIterator[bytes]:
    """Yield the lines of an endless body without line ends; an incomplete last line is dropped.

    Chunks may end anywhere, also inside a character.

    Raises:
        OversizedError: a line is longer than `limit` bytes.
        UnreachableError: the connection broke.
    """
    buffer = bytearray()
    async for chunk in response.chunks():
        searched = len(buffer)
        buffer += chunk
        start = 0
        while (end := buffer.find(b"\n", max(start, searched))) >= 0:
            if end - start > limit:
                raise transports.OversizedError(what, limit)
            if end > start:
                yield bytes(buffer[start:end])
            start = end + 1
        del buffer[:start]
        if len(buffer) > limit:
            raise transports.OversizedError(what, limit)


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


async def _collected(response: transports.Response, limit: int, what: str) -> bytearray:
    body = bytearray()
    async for chunk in response.chunks():
        body += chunk
        if len(body) > limit:
            raise transports.OversizedError(what, limit)
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
