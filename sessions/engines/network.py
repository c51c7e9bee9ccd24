"""An engine that is reached over a network: who may ask it, which of several Gateways, and until when.

A Unix socket belongs to one Gateway and ends with it. A TCP port does not, so three things stand in for that: a token
in each request, the term of the Gateway that asks (a lower one than was seen is of a Gateway that has been followed by
another), and an end when nobody with the token has asked for a while.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
from aiohttp import web

__all__ = ["READY", "TERM", "Entrance", "serve", "token_of"]

READY = "/readyz"
"""Answers without a token as soon as the engine does, and tells nothing."""
TERM = "Term"
"""Header with the term of the Gateway that asks, a whole number."""
_LEAST = 32  # characters of a token
_READING = 300.0  # seconds in which the body of a request arrives
_LOOK = 1.0  # seconds between looks whether anybody has asked

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def token_of(file: Path) -> str:
    """Return the token in a file. Raises `ValueError` for one that is missing or could be guessed."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--token: {file}: cannot be read ({error}): pass a file with a token") from error
    if len(token) < _LEAST:
        raise ValueError(f"--token: {file}: has {len(token)} characters: write at least {_LEAST} of chance into it")
    return token


class Entrance:
    """Lets requests in that have the token and come from the Gateway of the latest term.

    Args:
        token: that each request has.
        reading: seconds in which the body of a request arrives.
    """

    def __init__(self, token: str, reading: float = _READING) -> None:
        self._token, self._reading = token.encode(), reading
        self._term = 0
        self.heard = asyncio.get_running_loop().time()

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer 401 without the token, 409 to a Gateway that has been followed, 408 to a body that does not come."""
        if request.path == READY:
            return await handler(request)
        if not self._knows(request.headers.get("Authorization", "")):
            return _told("the token is missing or another", 401, {"WWW-Authenticate": "Bearer"})
        term = request.headers.get(TERM, "0")
        if not term.isascii() or not term.isdigit() or len(term) > 18:
            return _told(f"{TERM}: {term[:40]!r}: pass a whole number", 400)
        if int(term) < self._term:
            return _told(f"a Gateway of term {self._term} has this engine, so one of term {term} has not", 409)
        self._term, self.heard = int(term), asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._reading):
                await request.read()  # which keeps it for the handler
        except TimeoutError:
            return _told(f"the body did not arrive within {self._reading:g} s", 408)
        return await handler(request)

    def _knows(self, header: str) -> bool:
        kind, _, token = header.partition(" ")
        return hmac.compare_digest(token.strip().encode(errors="replace"), self._token) and kind.lower() == "bearer"

    async def silent(self, seconds: float) -> None:
        """Return when nobody with the token has asked for so long."""
        loop = asyncio.get_running_loop()
        while (left := self.heard + seconds - loop.time()) > 0:  # noqa: ASYNC110  # time is what is waited for
            await asyncio.sleep(left)


def _told(text: str, status: int, headers: dict[str, str] | None = None) -> web.Response:
    """Refuse a request whose body is not read: its connection ends with the answer."""
    body = orjson.dumps({"error": text})
    answer = web.Response(body=body, content_type="application/json", status=status, headers=headers)
    answer.force_close()
    return answer


async def serve(app: web.Application, listening: socket.socket, token: str, silence: float) -> None:
    """Answer at a port until nobody asks any more.

    Args:
        app: of the engine, which is completed here.
        listening: where requests come.
        token: that each of them has.
        silence: seconds without any, after which none is waited for.
    """
    entrance = Entrance(token)
    app.middlewares.append(entrance.watch)
    app.router.add_get(READY, _ready)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    await entrance.silent(silence)


async def _ready(_: web.Request) -> web.Response:
    return web.Response()
