"""Serves the pages over HTTP, read-only, for users of this machine.

The log has names of people and jobs, and everyone who can reach the port can read it. So the server listens on loopback
by default, and the host of a request must be this machine: a web page whose name points to this machine (DNS rebinding)
is refused. Nothing is cached, framed, scripted or loaded from elsewhere.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib.resources
import ipaddress
import logging
import re
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from webhook.audit.log import files
from webhook.audit.reading import queries
from webhook.pages import (
    asked,
    details,
    layouts,
    lists,
    scans,
    seals,
)
from webhook.pages.shelves import GoneError, LinePlace, Shelf

__all__ = ["HEADERS", "PageServer"]

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
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(:\d{1,5})?")


class PageServer:
    """Serves the pages of some logs.

    Args:
        shelf: the logs.
        host: the address to bind; requests with this name, or with any address, are accepted.
        clock: returns the current time with a time zone, for filters such as `2h`.
    """

    def __init__(
        self,
        shelf: Shelf,
        host: str = "127.0.0.1",
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._shelf = shelf
        self._host = host
        self._clock = clock
        self._names = [str(path) for path in shelf.paths]
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._runner: web.ServerRunner | None = None
        package = importlib.resources.files("webhook.pages")
        self._assets = {path: (package / path[1:]).read_bytes() for path in _ASSETS}

    async def open(self, port: int) -> int:
        """Start listening; return the port, which the system chooses for port 0. OSError when it cannot be bound."""
        self._runner = web.ServerRunner(web.Server(self._answer, access_log=None), shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, port).start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        response = self._refusal(request)
        if response is None:
            try:
                async with asyncio.timeout(_PATIENCE), self._turns:
                    response = await asyncio.to_thread(self._page, request.path, list(request.query.items()))
            except TimeoutError:
                response = self._problem(503, "Busy", "Other requests are searching these logs; try again in a moment.")
            except OSError as error:
                _log.warning("an audit log cannot be read", extra={"error": str(error)})
                text = f"{error.filename or 'a log'} cannot be read: {error.strerror or error}"
                response = self._problem(500, "Cannot be read", text)
        response.headers.update(HEADERS)
        return response

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        if not _is_here(request.headers.get("Host", ""), self._host):
            return web.Response(status=421, text="this host name is not served; use the address of this machine\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="pages are read-only\n", headers={"Allow": "GET, HEAD"})
        if request.body_exists:
            response = web.Response(status=413, text="a request for a page must not have a body\n")
            response.force_close()
            return response
        return None

    def _page(self, path: str, query: Sequence[tuple[str, str]]) -> web.Response:
        """Make a page; called on a thread, because it reads files."""
        if path in self._assets:
            return web.Response(body=self._assets[path], content_type=_ASSETS[path])
        try:
            return self._found(path, query)
        except GoneError as error:
            return self._problem(404, "Not found", f"{error}.")
        except asked.QuestionError as error:
            return self._problem(400, "This cannot be searched for", f"{error}.")

    def _found(self, path: str, query: Sequence[tuple[str, str]]) -> web.Response:
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
        question = asked.Asked.from_pairs(query, self._clock())
        found = scans.scan(self._shelf, question.questions, question.cursor, unreadable=question.unreadable)
        return lists.page(question, found, self._names)

    def _record(self, place: LinePlace) -> bytes:
        found = self._shelf.at(place)
        entry = queries.entry_of(files.LogLine(str(found.path), 0, found.data))
        if entry.record is None:
            return details.unreadable_page(scans.Row(found, entry), self._names)
        return details.page(entry.record, seals.standing(self._shelf, found, entry.record), str(place), self._names)

    def _problem(self, status: int, title: str, text: str) -> web.Response:
        response = _html(layouts.problem_page(title, text, self._names))
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
