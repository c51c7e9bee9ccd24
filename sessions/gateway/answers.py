"""Answers, and the one place where a refusal becomes a status."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import orjson
import zstandard
from aiohttp import web
from pydantic import BaseModel, ValidationError

from sessions.gateway.arrivals import arrived
from sessions.journal.store import AwayError, ChangedError
from sessions.seam import Refused

__all__ = ["MOST", "MissingError", "body", "check_members", "errors", "head", "json", "members", "read"]

MOST = 1 << 20
"""Bytes of a body of JSON, unless its handler says more: a megabyte of it takes a tenth of a second to read."""

_MEMBERS = 1 << 14
_MEMBER = re.compile(rb'"[ \t\r\n]*:')
_LOG = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
B = TypeVar("B", bound=BaseModel)


class MissingError(LookupError):
    """There is no such thing, or it is another tenant's: nobody can tell which."""


def json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return JSON."""
    return web.Response(body=orjson.dumps(value), content_type="application/json", status=status, headers=headers)


async def read(request: web.Request, limit: int) -> bytes:
    """Return the body, decompressed, never more than a limit.

    Raises:
        Refused: when the body is not what its header says.
        HTTPRequestEntityTooLarge: when it is larger.
    """
    if "body" not in request:  # a handler may ask twice
        request["body"] = await arrived(request, limit)
    if len(request["body"]) > limit:
        raise _large(limit)
    whole = head(request, limit + 1)
    if len(whole) > limit:
        raise _large(limit)
    return whole


def check_members(data: bytes) -> None:
    """Raise `Refused` for JSON with more members than any request has: each unknown one makes an error of its own."""
    if data.count(b'"') > 2 * _MEMBERS and sum(1 for _ in _MEMBER.finditer(data)) > _MEMBERS:
        raise Refused(f"the body has more than {_MEMBERS} members; send less in one request")


def head(request: web.Request, most: int) -> bytes:
    """Return the first bytes of a body of which `read` has read some, decompressed.

    Raises:
        Refused: when the body is not what its header says.
    """
    data = bytes(request.get("body", b""))
    if request.headers.get("Content-Encoding", "").lower() != "zstd":
        return data[:most]
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            return bytes(reader.read(most))
    except zstandard.ZstdError as error:
        raise Refused("the body is not zstd, though its Content-Encoding says so") from error


def _large(limit: int) -> web.HTTPRequestEntityTooLarge:
    return web.HTTPRequestEntityTooLarge(limit, text=f"the body has more than {limit} bytes; send less in one request")


async def body(request: web.Request, form: type[B], most: int = MOST) -> B:
    """Return the body of at most some bytes in its form. Raises `Refused` with the first thing that is wrong."""
    data = await read(request, most)
    check_members(data)
    try:
        return form.model_validate_json(data or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Refused(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from error


async def members(request: web.Request) -> dict[str, Any]:
    """Return the members of the body, of which a handler reads few. Raises `Refused` when it is not a JSON object."""
    try:
        found = orjson.loads(await read(request, MOST))
    except orjson.JSONDecodeError as error:
        raise Refused(f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Refused("the body is not a JSON object")
    return found


_STATUSES = ((Refused, 422), (ChangedError, 409), (MissingError, 404))


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer exceptions; the client shows `detail` to its user."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return error if error.status < 400 else _told(error.status, error.text or error.reason, _kept(error))
    except (Refused, ChangedError, MissingError) as error:
        return _told(next(status for kind, status in _STATUSES if isinstance(error, kind)), str(error))
    except AwayError as error:
        _LOG.warning("%s: %s", request.path, error)
        return _told(503, "the journal does not answer at the moment; send this again")
    except Exception:  # noqa: BLE001  # whoever asked gets an answer
        _LOG.exception("%s %s failed", request.method, request.path)
        return _told(500, "the Gateway failed at this request; its log says how")


def _kept(error: web.HTTPException) -> dict[str, str]:
    return {name: error.headers[name] for name in ("Retry-After", "Allow") if name in error.headers}


def _told(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    detail: dict[str, Any] = {"detail": text[:2000], "error": text[:2000]}
    return json(detail, status, headers)
