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
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from aiohttp import web

from muster.audit import log_files, queries
from muster.webhook.listening.connections import Limits
from muster.webhook.listening.listeners import NAME, OTHERS, Listener
from muster.webhook.pages import asked, details, exports, layouts, lists, rules, scans, seals
from muster.webhook.pages.asked import Asked
from muster.webhook.pages.gates import Gate
from muster.webhook.pages.shelves import GoneError, LinePlace, Shelf
from muster.webhook.pages.tallies import Tallies

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
_PATIENCE = 30.0  # seconds for waiting and scanning of one request, and of one block of an export
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
_EXPORT_ENDS = 300.0  # seconds; whoever reads more slowly gets a part, which is not ended as a whole one is
_LIMITS = Limits(connections=256, slow=30.0)  # a reader may be far away
_BODY = 64 * 1024  # bytes; no page wants any
_GRACE = 1.0  # seconds for open answers at the end
_EXPORTS = 2  # at the same time; others are told to try again
_ROWS = scans.Budget(rows=400)
_Make: TypeAlias = Callable[[str, Sequence[tuple[str, str]]], web.Response]
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
        self._exports = asyncio.Semaphore(_EXPORTS)
        self._tallies = Tallies(shelf)
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
            return _told(web.Response(text="ok\n"))
        response = self._refusal(request) or await self._unwelcome(request)
        if response is None and request.path in exports.FORMS and request.method == "GET":
            return await self._exported(request)
        if response is None:
            response = await self._guarded(self._said(self._found), request.path, list(request.query.items()))
        response.headers.update(HEADERS)
        return response

    async def _guarded(self, make: _Make, path: str, query: Sequence[tuple[str, str]]) -> web.Response:
        """Make an answer on a thread, when it is its turn; what goes wrong becomes a page that says so."""
        try:
            async with asyncio.timeout(_PATIENCE), self._turns:
                return await asyncio.to_thread(make, path, query)
        except TimeoutError:
            return self._busy()
        except OSError as error:
            _log.warning("an audit log cannot be read", extra={"error": str(error)})
            text = f"{error.filename or 'a log'} cannot be read: {error.strerror or error}"
            return self._problem(500, "Cannot be read", text)

    def _busy(self) -> web.Response:
        return self._problem(503, "Busy", "Other requests are searching these logs; try again in a moment.")

    async def _exported(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send an export; what goes wrong before its first block is a page that says so."""
        if self._exports.locked():
            return _told(self._busy())
        async with self._exports:
            begun: list[tuple[bytes, Iterator[bytes]]] = []

            def begin(path: str, query: Sequence[tuple[str, str]]) -> web.Response:
                self._shelf.refresh()
                blocks = exports.blocks(self._shelf, Asked.from_pairs(query, self._clock()), path)
                begun.append((next(blocks), blocks))
                return web.Response()

            refusal = await self._guarded(self._said(begin), request.path, list(request.query.items()))
            if not begun:
                return _told(refusal)
            return await self._streamed(request, *begun[0])

    async def _streamed(
        self, request: web.BaseRequest, block: bytes | None, blocks: Iterator[bytes]
    ) -> web.StreamResponse:
        file = f"muster-audit.{request.path.rpartition('.')[2]}"
        headers = {
            "Content-Type": exports.FORMS[request.path].media,
            "Content-Disposition": f'attachment; filename="{file}"',
            "Server": NAME,
        }
        response = web.StreamResponse(headers={**HEADERS, **headers})
        response.enable_chunked_encoding()
        try:
            async with asyncio.timeout(_EXPORT_ENDS):
                await response.prepare(request)
                while block is not None:
                    await response.write(block)
                    block = await self._next(blocks)
        except ConnectionError:
            return response  # who asked has gone
        except (OSError, GoneError, TimeoutError) as error:
            # The status is sent, so only a connection that breaks says that the file is not whole.
            _log.warning("an export of the audit log was ended", extra={"error": str(error)})
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _next(self, blocks: Iterator[bytes]) -> bytes | None:
        async with asyncio.timeout(_PATIENCE), self._turns:
            return await asyncio.to_thread(next, blocks, None)

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

    def _said(self, make: _Make) -> _Make:
        """Return the same with a page in place of an error that the address has."""

        def said(path: str, query: Sequence[tuple[str, str]]) -> web.Response:
            try:
                return make(path, query)
            except GoneError as error:
                return self._problem(404, "Not found", f"{error}.")
            except asked.QuestionError as error:
                return self._problem(400, "This cannot be searched for", f"{error}.")

        return said

    def _found(self, path: str, query: Sequence[tuple[str, str]]) -> web.Response:
        """Make a page; called on a thread, because it reads files."""
        if path in self._assets:
            return web.Response(body=self._assets[path], content_type=_ASSETS[path])
        if path in exports.FORMS:  # asked by HEAD
            return web.Response(headers={"Content-Type": exports.FORMS[path].media})
        self._shelf.refresh()
        if path == "/":
            return _html(self._list(query))
        kind, _, place = path.removeprefix("/").partition("/")
        if kind == "rules":
            return _html(rules.page(place, self._names))
        if kind == "record":
            return _html(self._record(LinePlace.parse(place)))
        if kind == "json":
            data = self._shelf.at(LinePlace.parse(place)).data
            return web.Response(body=data or b"null", content_type="application/json")
        raise GoneError("this address is neither the list of decisions nor the page of one, or of a rule")

    def _list(self, query: Sequence[tuple[str, str]]) -> bytes:
        question = Asked.from_pairs(query, self._clock())
        budget = _ROWS if question.view == asked.VIEWS[0] and not question.unreadable else None
        found = scans.scan(
            self._shelf, question.questions, question.cursor, unreadable=question.unreadable, budget=budget
        )
        return lists.page(question, found, self._tallies.of(question.typed, question.questions), self._names)

    def _record(self, place: LinePlace) -> bytes:
        found = self._shelf.at(place)
        entry = queries.entry_of(log_files.LogLine(str(found.path), 0, found.data))
        if entry.record is None:
            return details.unreadable_page(scans.Row(found, entry), self._names)
        return details.page(entry.record, seals.standing(self._shelf, found, entry.record), str(place), self._names)

    def _problem(self, status: int, title: str, text: str) -> web.Response:
        response = _html(layouts.problem_page(title, text, self._names))
        response.set_status(status)
        return response


def _told(response: web.Response) -> web.Response:
    response.headers.update(HEADERS)
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
