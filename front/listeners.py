"""Fronts: servers of aiohttp at a port. The one of the webhook and the pages has a table of paths and no middleware.

A webhook has seven fixed paths; aiohttp's router and application machinery would cost more per request than the
decision itself. A connection that has made a good request is kept for longer than the 90 s of the API server's Go
client, so that the client closes it and not this process, except when it stops (`Listener.leave`) or has too many of
them (`connections`).

What is not HTTP/1 gets one sentence, which repeats nothing of what was sent, since a token may stand there; it is never
logged, because anybody may send it as often as they like. No answer tells of which versions it was made.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from aiohttp import HttpVersion10, HttpVersion11, web

from muster.front.acceptors import Acceptor
from muster.front.connections import Connection, Connections, Limits, State
from muster.front.request_bodies import Bodies, CountedRequest

__all__ = ["NAME", "OTHERS", "Front", "Handler", "Listener", "connection_of", "doubt"]

NAME = "muster"
"""What answers call the server, in place of the versions of Python and aiohttp."""
OTHERS = "*"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)
_of_clients = logging.getLogger(f"{__name__}.clients")
_of_clients.setLevel(logging.CRITICAL)
_LINGER = 1.0  # seconds for which the rest of a refused body is read, so that its sender reads the refusal
_BAD, _BROKEN = 400, 500
_VERSIONS = (HttpVersion10, HttpVersion11)
_UNREADABLE = "this is not a request of HTTP/1.1, or a header of it is too long; correct it\n"
_FOREIGN = "HTTP/1.1 and HTTP/1.0 are spoken here\n"
_FAILED = "Muster failed; its log has more\n"
_NOT_FOUND = "there is no such path; see /healthz, /readyz and /metrics\n"


class Front:
    """Serves a server of aiohttp at a port; to be made in a running event loop.

    Args:
        server: answers requests. It says by `connection_of` which of them wait for an answer.
        grace: seconds that open requests get to end in `close`.
        limits: what connections may cost.
        closed: is told why a connection was closed: `crowded`, `slow`.

    Attributes:
        connections: counts connections.
    """

    def __init__(
        self, server: web.Server, grace: float, limits: Limits, closed: Callable[[str], None] = lambda _why: None
    ) -> None:
        self._server = server
        self._grace = grace
        self._limits = limits
        self._acceptor: Acceptor | None = None
        self.connections = Connections(limits, closed)

    async def open(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Start listening; return the port, which the system chooses for port 0.

        Args:
            host: address to bind.
            port: TCP port.
            context: serves the certificate; None for plain HTTP.

        Raises:
            OSError: the address cannot be bound.
        """
        make = partial(_Protocol, self._server, asyncio.get_running_loop(), self._limits.idle)
        self._acceptor = Acceptor(self.connections, make, context, self._limits.slow)
        return await self._acceptor.open(host, port)

    async def close(self) -> None:
        """Stop accepting connections, let open requests end, close the connections."""
        if self._acceptor is None:
            return
        await self._acceptor.close()
        await asyncio.sleep(0)  # requests that have just come begin
        self._server.pre_shutdown()
        await self._server.shutdown(self._grace)


class Listener(Front):
    """Serves handlers by path; to be made in a running event loop.

    Args:
        handlers: by exact path; the one of `OTHERS`, if there is one, answers all other paths.
        body_limit: bytes; a larger body is answered with 413 and not read to its end.
        grace: seconds that open requests get to end in `close`.
        limits: what connections may cost.
        closed: is told why a connection was closed: `crowded`, `slow`.

    Attributes:
        bodies: counts the bytes of bodies.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        body_limit: int,
        grace: float,
        limits: Limits | None = None,
        closed: Callable[[str], None] = lambda _why: None,
    ) -> None:
        limits = limits or Limits()
        super().__init__(web.Server(self._dispatch, request_factory=self._request), grace, limits, closed)
        self._handlers = handlers
        self._other = handlers.get(OTHERS, _nowhere)
        self._leaving = False
        self.bodies = Bodies(body_limit, max(body_limit, limits.bodies))

    def leave(self) -> None:
        """From now on, close each connection after its next answer, and announce that in the answer.

        A client may just have sent a review when `close` closes its connection, and cannot know whether it was read:
            Go's client only retries a POST that it has not begun to send. A connection without a request in between is
            closed by `close`.
        """
        self._leaving = True

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = connection_of(request)
        connection.enter(State.ARRIVING)
        try:
            response = await self._answered(request)
        finally:
            if isinstance(request, CountedRequest):
                request.release_body()
        connection.enter(State.FRESH if response.status >= _BAD else State.KEPT)
        if self._leaving:
            response.force_close()
        if not response.prepared:
            response.headers["Server"] = NAME
        return response

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        if isinstance(request, CountedRequest) and request.is_foreign:
            return web.Response(status=505, text=_FOREIGN)
        if doubtful := doubt(request):
            response = web.Response(status=_BAD, text=f"{doubtful}\n")
            response.force_close()
            return response
        return await self._handlers.get(request.path, self._other)(request)

    def _request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:  # Any: aiohttp calls the factory with classes that it does not export
        loop = asyncio.get_running_loop()
        foreign = message.version not in _VERSIONS
        if foreign:
            message = message._replace(version=HttpVersion11, should_close=True)  # in which it is answered
        request = CountedRequest(message, payload, protocol, writer, task, loop, client_max_size=self.bodies.each)
        request.is_foreign = foreign
        request.bodies = self.bodies
        request.complete = partial(connection_of(request).enter, State.BUSY)
        return request


class _Protocol(web.RequestHandler):
    """Tells the table of connections what happens on this one."""

    def __init__(
        self, server: web.Server, loop: asyncio.AbstractEventLoop, idle: float, connection: Connection
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=idle,
            lingering_time=_LINGER,
            logger=_of_clients,
            access_log=None,  # type: ignore[arg-type]  # None switches it off
            auto_decompress=False,  # the API server never compresses; a small compressed body could become huge
        )
        self.connection = connection

    def data_received(self, data: bytes) -> None:
        if data:
            self.connection.heard()
        super().data_received(data)

    def eof_received(self) -> None:
        """Answer nobody any more: who has said that they send nothing more, over TLS takes nothing more either."""
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = _BROKEN,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002  # it may quote what was sent
    ) -> web.StreamResponse:
        """Answer what is not HTTP, and log a defect of ours: aiohttp's own log is of what clients do."""
        is_gone = request.transport is None and isinstance(exc, OSError)
        if status >= _BROKEN and not is_gone:
            _log.error("a request failed", exc_info=exc, extra={"path": request.path})
        if request.writer.output_size:
            raise ConnectionError("an answer is under way")
        text = _UNREADABLE if status < _BROKEN else _FAILED
        response = web.Response(status=min(status, _BROKEN), text=text, headers={"Server": NAME})
        response.force_close()
        return response

    def connection_lost(self, exc: BaseException | None) -> None:
        self.connection.gone()
        super().connection_lost(exc)


async def _nowhere(_request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=404, text=_NOT_FOUND)


def connection_of(request: web.BaseRequest) -> Connection:
    """Return the connection of a request that came through a `Front`."""
    protocol: Any = request.protocol
    connection: Connection = protocol.connection
    return connection


def doubt(request: web.BaseRequest) -> str:
    """Return why another server may see another end of a request, "" where it cannot.

    What follows such a request could be another request, or its body. So it is refused, and its connection closed.
    """
    codings = [each.strip().lower() for each in request.headers.getall("Transfer-Encoding", ())]
    if request.method == "CONNECT":
        return "CONNECT is not done here; send requests to this address itself"
    if codings and (codings != ["chunked"] or "Content-Length" in request.headers):
        return "Transfer-Encoding: is not chunked alone; send that, or a Content-Length, and not both"
    return ""
