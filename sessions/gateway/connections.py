"""How many connections are open: whoever opens many and sends nothing, with or without a key, keeps nobody out.

aiohttp 3.14 has no limit, and closes no connection that never sent a request. Without descriptors asyncio accepts none
and logs that thousands of times a second.
"""

from __future__ import annotations

import asyncio
import resource
import socket

from aiohttp import web

from sessions.gateway.answers import Handler

__all__ = ["BUSY", "Busy", "busy", "most", "served"]

Busy = set[asyncio.BaseProtocol]
BUSY: web.AppKey[Busy] = web.AppKey("busy", set)
"""Connections with a request that is being answered."""
_WANTED = 16_384  # a client may have 2,000 polls under way
_OTHERS = 512  # descriptors of files, sockets of engines, and connections that are accepted at once


@web.middleware
async def busy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Note that a connection has a request."""
    request.app[BUSY].add(request.protocol)
    try:
        return await handler(request)
    finally:
        request.app[BUSY].discard(request.protocol)


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


async def served(runner: web.AppRunner, listening: socket.socket, at: Busy, limit: int) -> asyncio.Server:
    """Serve at a socket. A connection beyond the limit closes the oldest one that does nothing, or itself.

    Args:
        runner: that was set up.
        listening: the socket.
        at: connections that have a request.
        limit: connections that may be open, and as many more as are accepted at once.

    Returns:
        What listens, which is to be closed before the runner is cleaned up.
    """
    server = runner.server
    if server is None:
        raise RuntimeError("the runner was not set up")

    def protocol() -> asyncio.BaseProtocol:
        opened = [each for each in server.connections if each.transport is not None]
        if len(opened) >= limit:
            idle = next((each for each in opened if each not in at), None)
            if idle is None:
                return _Deaf()
            idle.force_close()
        return server()

    return await asyncio.get_running_loop().create_server(protocol, sock=listening, backlog=128)
