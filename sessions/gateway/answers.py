"""Answers, and the one place where a refusal becomes a status."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import orjson
import zstandard
from aiohttp import web
from pydantic import BaseModel

from muster.sessions.gateway.arrivals import arrived, hold
from muster.sessions.journal.store import AwayError, ChangedError, DamagedError
from muster.sessions.readers.pool import LARGE, CrowdedError, Readers
from muster.sessions.seam import Refused
from muster.sessions.wire import forms

__all__ = ["DAMAGED", "MOST", "READERS", "MissingError", "body", "errors", "head", "json", "members", "read", "told"]

MOST = 1 << 20
"""Bytes of a body of JSON, unless its handler says more: a megabyte of it takes a tenth of a second to read."""
DAMAGED = "the journal of this Gateway is damaged, and whoever runs the Gateway has to restore a backup"
READERS: web.AppKey[Readers] = web.AppKey("readers", Readers)

_LOG = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
B = TypeVar("B", bound=BaseModel)
T = TypeVar("T")


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
        HTTPTooManyRequests: as `arrived` says.
    """
    if "whole" not in request:  # a handler may ask twice
        request["body"] = await arrived(request, limit)
        if len(request["body"]) > limit:
            raise _large(limit)
        request["whole"] = await _unpacked(request, limit + 1) if _is_packed(request) else request["body"]
    if len(request["whole"]) > limit:
        raise _large(limit)
    return bytes(request["whole"])


async def _unpacked(request: web.Request, most: int) -> bytes:
    """Return the first bytes of a compressed body; large ones are unpacked in a thread, without the lock."""
    whole = head(request, LARGE + 1)
    if len(whole) > LARGE:
        whole = await request.app[READERS].beside(str(request.get("tenant")), head, request, most)
        hold(request, len(whole))
    return whole


def _is_packed(request: web.Request) -> bool:
    return request.headers.get("Content-Encoding", "").lower() == "zstd"


async def told(request: web.Request, reads: Callable[[bytes], T], data: bytes) -> T:
    """Return what a function of a module makes of a body, as JSON has it; a large one is read beside the loop.

    Raises:
        Refused: as the function does.
        CrowdedError: as `Readers.told` does.
    """
    if len(data) <= LARGE:
        return reads(data)
    made: T = orjson.loads(await request.app[READERS].told(str(request.get("tenant")), reads, data))
    return made


def head(request: web.Request, most: int) -> bytes:
    """Return the first bytes of a body of which `read` has read some, decompressed.

    Raises:
        Refused: when the body is not what its header says.
    """
    data: bytes = request.get("body", b"")
    if not _is_packed(request):
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
    if len(data) > LARGE:
        data = await request.app[READERS].told(str(request.get("tenant")), form, data)
    return forms.checked(form, data)


async def members(request: web.Request) -> dict[str, Any]:
    """Return the members of the body, of which lists and objects are empty. Raises `Refused` for what is no object."""
    return await told(request, forms.members, await read(request, MOST))


_LATER = {"Retry-After": "1"}
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
    except CrowdedError as error:
        return _told(429 if error.is_own else 503, f"{error}; send this one again later", _LATER)
    except AwayError as error:
        _LOG.warning("%s: %s", request.path, error)
        away = "the journal does not answer at the moment; send this again"
        return _told(503, DAMAGED if isinstance(error, DamagedError) else away)
    except Exception:  # noqa: BLE001  # whoever asked gets an answer
        _LOG.exception("%s %s failed", request.method, request.path)
        return _told(500, "the Gateway failed at this request; its log says how")


def _kept(error: web.HTTPException) -> dict[str, str]:
    return {name: error.headers[name] for name in ("Retry-After", "Allow") if name in error.headers}


def _told(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    detail: dict[str, Any] = {"detail": text[:2000], "error": text[:2000]}
    return json(detail, status, headers)
