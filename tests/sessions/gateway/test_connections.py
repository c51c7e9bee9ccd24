"""Connections that are opened and kept, which need no key: they keep nobody out who asks something."""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import web

from muster.front.connections import Limits
from muster.front.listeners import Front
from muster.sessions.gateway.connections import counted

LIMIT = 16
ASKED = b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"


@contextlib.asynccontextmanager
async def serving():
    """A server that answers `/quick` at once and `/slow` when it is told to."""
    go, begun = asyncio.Event(), asyncio.Queue()

    async def slow(_):
        begun.put_nowait(None)
        await go.wait()
        return web.Response(text="slow")

    async def quick(_):
        return web.Response(text="quick")

    app = web.Application(middlewares=[counted])
    app.router.add_get("/slow", slow)
    app.router.add_get("/quick", quick)
    runner = web.AppRunner(app)
    await runner.setup()
    front = Front(runner.server, 1.0, Limits(connections=LIMIT))
    address = "127.0.0.1", await front.open("127.0.0.1", 0, None)
    try:
        yield address, go, begun
    finally:
        go.set()
        await front.close()
        await runner.cleanup()


async def opened(address, sent=b""):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(sent)
    return reader, writer


def closed(*connections):
    for _, writer in connections:
        writer.close()


async def test_who_asks_is_answered_however_many_connections_do_nothing():
    async with serving() as (address, _, _):
        idle = [await opened(address, b"POST /quick HTTP/1.1\r\n" if number % 2 else b"") for number in range(40)]
        for _ in range(3):
            asking = await opened(address, ASKED % b"quick")
            assert (await asking[0].readuntil(b"quick")).startswith(b"HTTP/1.1 200")
            idle.append(asking)
        assert await idle[0][0].read() == b""
        closed(*idle)


async def test_a_connection_with_a_request_is_not_closed_for_others():
    async with serving() as (address, go, begun):
        slow = await opened(address, ASKED % b"slow")
        await begun.get()
        idle = [await opened(address) for _ in range(40)]
        assert await idle[0][0].read() == b""
        go.set()
        assert (await slow[0].readuntil(b"slow")).startswith(b"HTTP/1.1 200")
        closed(slow, *idle)


async def test_while_all_have_requests_a_new_connection_is_closed_and_the_next_one_is_served():
    async with serving() as (address, go, begun):
        slow = [await opened(address, ASKED % b"slow") for _ in range(LIMIT)]
        for _ in slow:
            await begun.get()
        late = await opened(address)
        assert await late[0].read() == b""
        go.set()
        for reader, _ in slow:
            await reader.readuntil(b"slow")
        asking = await opened(address, ASKED % b"quick")
        assert (await asking[0].readuntil(b"quick")).startswith(b"HTTP/1.1 200")
        closed(late, asking, *slow)
