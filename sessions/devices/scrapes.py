"""`/metrics` of an agent by HTTP, with the standard library alone: one request for each connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Scrapes"]

_PATIENCE = 5.0  # seconds for a request
_CONNECTIONS = 16
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Scrapes:
    """Answers those who scrape.

    Args:
        render: returns the text.
    """

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render
        self._connections = 0

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Listen; port 0 chooses a free one."""
        return await asyncio.start_server(self._met, host, port, limit=4096)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _CONNECTIONS:
                with suppress(OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
                    async with asyncio.timeout(_PATIENCE):
                        asked = await reader.readuntil(b"\r\n\r\n")
                        writer.write(self._answer(asked.split(b"\r\n", 1)[0]))
                        await writer.drain()
        finally:
            self._connections -= 1
            writer.close()

    def _answer(self, line: bytes) -> bytes:
        if line.split(b" ")[:2] != [b"GET", b"/metrics"]:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        text = self._render()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {_TYPE}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        return head.encode() + text
