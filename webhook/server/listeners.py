"""The listener: one low-level aiohttp server over TLS, a table of paths, no router and no middleware.

A webhook has seven fixed paths; aiohttp's router and application machinery would cost more per request than the
decision itself. A connection that has made a good request is kept for longer than the 90 s of the API server's Go
client, so that the client closes it and not this process, except when it stops (`Listener.leave`) or has too many of
them (`connections`).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from aiohttp import web

from webhook.server.bodies import Bodies, CountedRequest
from webhook.server.connections import Connection, Connections, Limits, State
from webhook.server.doors import Door

__all__ = ["Handler", "Listener"]

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)
_of_clients = logging.getLogger(f"{__name__}.clients")
_of_clients.setLevel(logging.CRITICAL)  # anybody may send what is no HTTP, as often as they like
_LINGER = 1.0  # seconds for which the rest of a refused body is read, so that its sender reads the refusal
_BAD = 400


class Listener:
    """Serves handlers by path; to be made in a running event loop.

    Args:
        handlers: by exact path.
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
        return response

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        handler = self._handlers.get(request.path)
        if handler is None:
            return web.Response(status=404, text="there is no such path; see /healthz, /readyz and /metrics\n")
        try:
            return await handler(request)
        except Exception:  # noqa: BLE001  # a defect of ours: told here, since aiohttp's log is of what clients do
            _log.exception("a request failed", extra={"path": request.path})
            response = web.Response(status=500, text="Muster failed; its log has more\n")
            response.force_close()
            return response

    def _request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:  # Any: aiohttp calls the factory with classes that it does not export
        loop = asyncio.get_running_loop()
        request = CountedRequest(message, payload, protocol, writer, task, loop, client_max_size=self.bodies.each)
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

    def connection_lost(self, exc: BaseException | None) -> None:
        self.connection.gone()
        super().connection_lost(exc)


def _connection_of(request: web.BaseRequest) -> Connection:
    protocol: Any = request.protocol
    connection: Connection = protocol.connection
    return connection
