"""The listener: one low-level aiohttp server over TLS, a table of paths, no router and no middleware.

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

from muster.webhook.listening.bodies import Bodies, CountedRequest
from muster.webhook.listening.connections import Connection, Connections, Limits, State
from muster.webhook.listening.doors import Door

__all__ = ["NAME", "OTHERS", "Handler", "Listener"]

NAME = "muster"
"""What answers call the server, in place of the versions of Python and aiohttp."""
OTHERS = "*"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)
_of_clients = logging.getLogger(f"{__name__}.clients")
_of_clients.setLevel(logging.CRITICAL)
_LINGER = 1.0  # seconds for which the rest of a refused body is read, so that its sender reads the refusal
_BAD = 400
_VERSIONS = (HttpVersion10, HttpVersion11)
_UNREADABLE = "this is not a request of HTTP/1.1, or a header of it is too long; correct it\n"
_FOREIGN = "HTTP/1.1 and HTTP/1.0 are spoken here\n"
_NOT_FOUND = "there is no such path; see /healthz, /readyz and /metrics\n"


class Listener:
    """Serves handlers by path; to be made in a running event loop.

    Args:
        handlers: by exact path; the one of `OTHERS`, if there is one, answers all other paths.
        body_limit: bytes; a larger body is answered with 413 and not read to its end.
        grace: seconds that open requests get to end in `close`.
        limits: what connections may cost.
        closed: is told why a connection was closed: `crowded`, `slow`.

    Attributes:
        bodies: counts the bytes of bodies.
        connections: counts connections.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        body_limit: int,
        grace: float,
        limits: Limits | None = None,
        closed: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._handlers = handlers
        self._other = handlers.get(OTHERS, _nowhere)
        self._grace = grace
        self._limits = limits or Limits()
        self._leaving = False
        self._door: Door | None = None
        self._server = web.Server(self._dispatch, request_factory=self._request)
        self.bodies = Bodies(body_limit, max(body_limit, self._limits.bodies))
        self.connections = Connections(self._limits, closed)

    async def open(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Start listening; return the port, which the system chooses for port 0.

        Args:
            host: address to bind.
            port: TCP port.
            context: serves the certificate; None for plain HTTP in tests and benchmarks.

        Raises:
            OSError: the address cannot be bound.
        """
        make = partial(_Protocol, self._server, asyncio.get_running_loop(), self._limits.idle)
        self._door = Door(self.connections, make, context, self._limits.slow)
        return await self._door.open(host, port)

    def leave(self) -> None:
        """From now on, close each connection after its next answer, and announce that in the answer.

        A client may just have sent a review when `close` closes its connection, and cannot know whether it was read:
            Go's client only retries a POST that it has not begun to send. A connection without a request in between is
            closed by `close`.
        """
        self._leaving = True

    async def close(self) -> None:
        """Stop accepting connections, let open requests end, close the connections."""
        if self._door is None:
            return
        await self._door.close()
        await asyncio.sleep(0)  # requests that have just come begin
        self._server.pre_shutdown()
        await self._server.shutdown(self._grace)

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = _connection_of(request)
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
        try:
            return await self._handlers.get(request.path, self._other)(request)
        except Exception:  # noqa: BLE001  # a defect of ours: told here, since aiohttp's log is of what clients do
            _log.exception("a request failed", extra={"path": request.path})
            response = web.Response(status=500, text="Muster failed; its log has more\n")
            response.force_close()
            return response

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
        request.complete = partial(_connection_of(request).enter, State.BUSY)
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

    def handle_error(self, request: web.BaseRequest, *_why: object, **_more: object) -> web.StreamResponse:
        """Answer what is not HTTP."""
        if request.writer.output_size:
            raise ConnectionError("an answer is under way")
        response = web.Response(status=_BAD, text=_UNREADABLE, headers={"Server": NAME})
        response.force_close()
        return response

    def connection_lost(self, exc: BaseException | None) -> None:
        self.connection.gone()
        super().connection_lost(exc)


async def _nowhere(_request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=404, text=_NOT_FOUND)


def _connection_of(request: web.BaseRequest) -> Connection:
    protocol: Any = request.protocol
    connection: Connection = protocol.connection
    return connection
