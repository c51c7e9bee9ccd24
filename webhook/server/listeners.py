"""The listener: one low-level aiohttp server over TLS, a table of paths, no router and no middleware.

A webhook has seven fixed paths; aiohttp's router and application machinery would cost more per request than the
decision itself. Idle connections are kept for an hour (aiohttp's default), longer than the 90 s of the API server's Go
client, so that the client closes them and not this process, except when it stops (`Listener.leave`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from aiohttp import web

__all__ = ["Handler", "Listener"]

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Listener:
    """Serves handlers by path.

    Args:
        handlers: by exact path.
        body_limit: bytes; a larger body is answered with 413 and not read to its end.
        grace: seconds that open requests get to end in `close`.
    """

    def __init__(self, handlers: Mapping[str, Handler], body_limit: int, grace: float = 10.0) -> None:
        self._handlers = handlers
        self._body_limit = body_limit
        self._grace = grace
        self._runner: web.ServerRunner | None = None
        self._leaving = False

    async def open(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Start listening; return the port, which the system chooses for port 0.

        Args:
            host: address to bind.
            port: TCP port.
            context: serves the certificate; None for plain HTTP in tests and benchmarks.

        Raises:
            OSError: the address cannot be bound.
        """
        server = web.Server(
            self._dispatch,
            request_factory=partial(_request, self._body_limit),
            access_log=None,
            auto_decompress=False,  # the API server never compresses; a small compressed body could become huge
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=self._grace)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=context, backlog=1024).start()
        return int(self._runner.addresses[0][1])

    def leave(self) -> None:
        """From now on, close each connection after its next answer, and announce that in the answer.

        A client may just have sent a review when `close` closes its connection, and cannot know whether it was read:
            Go's client only retries a POST that it has not begun to send. A connection without a request in between is
            closed by `close`.
        """
        self._leaving = True

    async def close(self) -> None:
        """Stop accepting connections, let open requests end, close the connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        handler = self._handlers.get(request.path)
        if handler is None:
            return web.Response(status=404, text="there is no such path; see /healthz, /readyz and /metrics\n")
        response = await handler(request)
        if self._leaving:
            response.force_close()
        return response


def _request(body_limit: int, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:  # noqa: PLR0913  # Any: aiohttp calls the factory with classes that it does not export
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=body_limit)
