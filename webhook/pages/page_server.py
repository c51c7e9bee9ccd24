"""Serves the pages over HTTP, read-only, for users of this machine, or over TLS for those whom a gate lets in.

The log has names of people and jobs. Without a gate, everyone who can reach the port can read it; so the server
listens on loopback by default, and the host of a request must be this machine: a web page whose name points to this
machine (DNS rebinding) is refused. With a gate, each request needs a token that the cluster takes, and any host is
answered, because no other web page can send that token. Nothing is cached, framed, scripted or loaded from elsewhere.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib.resources
import ipaddress
import logging
import re
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from muster.audit import log_files, queries
from muster.front.connections import Limits
from muster.front.listeners import OTHERS, Listener
from muster.webhook.pages import filters, html_parts, list_page, log_scan, record_page, record_seal
from muster.webhook.pages.filters import Filters
from muster.webhook.pages.gates import Gate
from muster.webhook.pages.log_places import GoneError, LinePlace, Shelf

__all__ = ["HEADERS", "HEALTH", "PageServer"]

_log = logging.getLogger(__name__)

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; script-src 'none'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_ASSETS = {"/style.css": "text/css", "/icon.svg": "image/svg+xml"}
_AT_ONCE = 2  # scans at the same time; others wait
_PATIENCE = 30.0  # seconds for waiting and scanning of one request
HEALTH = "/healthz"
"""The path that probes ask, which needs no token and says nothing about the log."""
_CHALLENGES = (
    'Bearer realm="muster audit log"',
    'Basic realm="muster audit log; the password is a token", charset="UTF-8"',
)
_UNKNOWN = """\
this log is read with a token of the cluster, as `Authorization: Bearer TOKEN`, or in a browser as the password with any
user name; `kubectl create token NAME` prints one for a ServiceAccount
"""
_UNANSWERED = "the API server did not say whether this token may read the log; try again in a moment\n"
_LIMITS = Limits(connections=256, slow=30.0)  # a reader may be far away
_BODY = 64 * 1024  # bytes; no page wants any
_GRACE = 1.0  # seconds for open answers at the end
_ROWS = log_scan.Budget(rows=400)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(:\d{1,5})?")


class PageServer:
    """Serves the pages of some logs.

    Args:
        shelf: the logs.
        host: the address to bind; requests with this name, or with any address, are accepted.
        clock: returns the current time with a time zone, for filters such as `2h`.
        gate: judges callers; None lets everyone in.
        tls: the TLS context of the listener; None is HTTP.
    """

    def __init__(
        self,
        shelf: Shelf,
        host: str = "127.0.0.1",
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        *,
        gate: Gate | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._shelf = shelf
        self._host = host
        self._clock = clock
        self._gate = gate
        self._tls = tls
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._listener: Listener | None = None
        package = importlib.resources.files("muster.webhook.pages")
        self._assets = {path: (package / path[1:]).read_bytes() for path in _ASSETS}

    async def open(self, port: int) -> int:
        """Start listening; return the port, which the system chooses for port 0. OSError when it cannot be bound."""
        self._listener = Listener({OTHERS: self._answer}, _BODY, _GRACE, _LIMITS)
        return await self._listener.open(self._host, port, self._tls)

    async def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await self._listener.close()

    @property
    def _names(self) -> list[str]:
        return [str(path) for path in self._shelf.paths]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == HEALTH:
            return web.Response(text="ok\n", headers=HEADERS)
        response = self._refusal(request) or await self._unwelcome(request)
        if response is None:
            response = await self._guarded(request.path, list(request.query.items()))
        response.headers.update(HEADERS)
        return response

    async def _guarded(self, path: str, query: Sequence[tuple[str, str]]) -> web.Response:
        """Make an answer on a thread, when it is its turn; what goes wrong becomes a page that says so."""
        try:
            async with asyncio.timeout(_PATIENCE), self._turns:
                return await asyncio.to_thread(self._found, path, query)
        except TimeoutError:
            return self._problem(503, "Busy", "Other requests are searching these logs; try again in a moment.")
        except GoneError as error:
            return self._problem(404, "Not found", f"{error}.")
        except filters.QuestionError as error:
            return self._problem(400, "This cannot be searched for", f"{error}.")
        except OSError as error:
            _log.warning("an audit log cannot be read", extra={"error": str(error)})
            text = f"{error.filename or 'a log'} cannot be read: {error.strerror or error}"
            return self._problem(500, "Cannot be read", text)

    async def _unwelcome(self, request: web.BaseRequest) -> web.Response | None:
        if self._gate is None:
            return None
        verdict = await self._gate.judge(request.headers.get("Authorization", ""))
        if verdict == "allowed":
            return None
        if verdict == "unknown":
            response = web.Response(status=401, text=_UNKNOWN)
            for challenge in _CHALLENGES:
                response.headers.add("WWW-Authenticate", challenge)
            return response
        if verdict == "forbidden":
            return web.Response(
                status=403, text=f"this token is not allowed to read the log: it needs {self._gate.wanted}\n"
            )
        return web.Response(status=503, text=_UNANSWERED, headers={"Retry-After": "5"})

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        if self._gate is None and not _is_here(request.headers.get("Host", ""), self._host):
            return web.Response(status=421, text="this host name is not served; use the address of this machine\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="pages are read-only\n", headers={"Allow": "GET, HEAD"})
        if request.body_exists:
            response = web.Response(status=413, text="a request for a page must not have a body\n")
            response.force_close()
            return response
        return None

    def _found(self, path: str, query: Sequence[tuple[str, str]]) -> web.Response:
        """Make a page; called on a thread, because it reads files."""
        if path in self._assets:
            return web.Response(body=self._assets[path], content_type=_ASSETS[path])
        self._shelf.refresh()
        if path == "/":
            return _html(self._list(query))
        kind, _, place = path.removeprefix("/").partition("/")
        if kind == "record":
            return _html(self._record(LinePlace.parse(place)))
        if kind == "json":
            data = self._shelf.at(LinePlace.parse(place)).data
            return web.Response(body=data or b"null", content_type="application/json")
        raise GoneError("this address is neither the list of decisions nor the page of one")

    def _list(self, query: Sequence[tuple[str, str]]) -> bytes:
        asked = Filters.from_pairs(query, self._clock())
        budget = _ROWS if asked.is_by_job else None
        found = log_scan.scan(self._shelf, asked.questions, asked.cursor, unreadable=asked.unreadable, budget=budget)
        return list_page.page(asked, found, self._names)

    def _record(self, place: LinePlace) -> bytes:
        found = self._shelf.at(place)
        entry = queries.entry_of(log_files.LogLine(str(found.path), 0, found.data))
        if entry.record is None:
            return record_page.unreadable_page(log_scan.Row(found, entry), self._names)
        standing = record_seal.standing(self._shelf, found, entry.record)
        return record_page.page(entry.record, standing, str(place), self._names)

    def _problem(self, status: int, title: str, text: str) -> web.Response:
        response = _html(html_parts.problem_page(title, text, self._names))
        response.set_status(status)
        return response


def _html(page: bytes) -> web.Response:
    return web.Response(body=page, content_type="text/html", charset="utf-8")


def _is_here(header: str, host: str) -> bool:
    """Whether a Host header can only mean this machine: an address, which DNS does not resolve, or its own name."""
    parts = _HOST.fullmatch(header)
    if parts is None:
        return False
    name = parts[1].strip("[]").lower()
    if name in ("localhost", host.lower()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
