"""How many connections are open: whoever opens many and sends nothing, with or without a key, keeps nobody out.

aiohttp 3.14 has no limit, and closes no connection that never sent a request. Without descriptors asyncio accepts none
and logs that thousands of times a second.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from dataclasses import dataclass

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from muster.sessions.gateway.answers import Handler, json

__all__ = ["BUSY", "LOG", "Busy", "Served", "busy", "most", "served"]

Busy = set[asyncio.BaseProtocol]
BUSY: web.AppKey[Busy] = web.AppKey("busy", set)
"""Connections with a request that is being answered."""
LOG = logging.getLogger("aiohttp.server.gateway")
"""Of servers, without what is not HTTP: anybody could fill it, and what it quotes may have the key of a header."""
LOG.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError)))
_WANTED = 16_384  # a client may have 2,000 polls under way
_OTHERS = 512  # descriptors of files, sockets of engines, and connections that are accepted at once
_HANDSHAKE = 10.0  # seconds for TLS, until which a connection is not counted


@web.middleware
async def busy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Note that a connection has a request. After one whose end is in doubt there is no other."""
    if doubt := _doubt(request):
        refused = json({"detail": doubt}, 400)
        refused.force_close()
        return refused
    request.app[BUSY].add(request.protocol)
    try:
        return await handler(request)
    finally:
        request.app[BUSY].discard(request.protocol)


def _doubt(request: web.Request) -> str:
    """Return why another server may see another end of a request: what follows it could be a request, or its body."""
    codings = [each.strip().lower() for each in request.headers.getall("Transfer-Encoding", ())]
    if request.method == "CONNECT":
        return "CONNECT is not done here; send requests to this address itself"
    if codings and (codings != ["chunked"] or "Content-Length" in request.headers):
        return "Transfer-Encoding: is not chunked alone; send that, or a Content-Length, and not both"
    return ""


def most() -> int:
    """Return how many connections may be open, for which the process may have more descriptors from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED + _OTHERS if hard == resource.RLIM_INFINITY else min(hard, _WANTED + _OTHERS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(wanted - _OTHERS, wanted // 4)


class _Deaf(asyncio.Protocol):
    """Closes a connection for which there is no place."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@dataclass(frozen=True, slots=True)
class Served:
    """To whom something is served.

    Attributes:
        busy: connections that have a request.
        limit: connections that may be open, and as many more as are accepted at once.
        tls: with which they are encrypted; None for plain HTTP.
    """

    busy: Busy
    limit: int
    tls: ssl.SSLContext | None = None


async def served(runner: web.AppRunner, listening: socket.socket, to: Served) -> asyncio.Server:
    """Serve at a socket. A connection beyond the limit closes the oldest one that does nothing, or itself.

    Args:
        runner: that was set up.
        listening: the socket.
        to: whom.

    Returns:
        What listens, which is to be closed before the runner is cleaned up.
    """
    server = runner.server
    if server is None:
        raise RuntimeError("the runner was not set up")

    def protocol() -> asyncio.BaseProtocol:
        opened = [each for each in server.connections if each.transport is not None]
        if len(opened) >= to.limit:
            idle = next((each for each in opened if each not in to.busy), None)
            if idle is None:
                return _Deaf()
            idle.force_close()
        return server()

    patience = _HANDSHAKE if to.tls else None
    loop = asyncio.get_running_loop()
    return await loop.create_server(protocol, sock=listening, backlog=128, ssl=to.tls, ssl_handshake_timeout=patience)
