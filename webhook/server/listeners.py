"""The listener: one low-level aiohttp server over TLS, a table of paths, no router and no middleware.

A webhook has seven fixed paths; aiohttp's router and application machinery would cost more per request than the
decision itself. Idle connections are kept for an hour (aiohttp's default), longer than the 90 s of the API server's Go
client, so that the client closes, until this process stops (`Listener.leave`).
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
        body_limit: bytes; a larger body is answered 413 and not read to its end.
        grace: seconds that `close` lets open requests run.
    """

    def __init__(self, handlers: Mapping[str, Handler], body_limit: int, grace: float = 10.0) -> None:
        self._handlers = handlers
        self._body_limit = body_limit
        self._grace = grace
        self._runner: web.ServerRunner | None = None
        self._leaving = False

    async def open(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Start to listen; return the port, which port 0 leaves to the system.

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
            auto_decompress=False,  # the API server never compresses, and a small bomb would
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=self._grace)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=context, backlog=1024).start()
        return int(self._runner.addresses[0][1])

    def leave(self) -> None:
        """From now on, end each connection with its next answer, and say so in it.

        A client that still has the connection when `close` closes it may have just sent a review, and is not told
        whether that was read: Go's client tries a POST again only if it never began to send it. A connection on which
        nobody asks in between is still closed by `close`.
        """
        self._leaving = True

    async def close(self) -> None:
        """Stop to accept, let open requests end, close the connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        handler = self._handlers.get(request.path)
        if handler is None:
            return web.Response(status=404, text="no such path; see /healthz, /readyz and /metrics\n")
        response = await handler(request)
        if self._leaving:
            response.force_close()
        return response


def _request(body_limit: int, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:  # noqa: PLR0913  # Any: aiohttp's request factory gets these, of classes that it does not export
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=body_limit)
