"""What good reviews notice of a crowd: idle connections, half-sent bodies, clients that never read, large documents.

The server is the real command in its own process, with TLS; the crowd and the good client are in this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeAlias

import orjson

from bench import figures, requests, reviews

__all__ = ["run"]

_IDLE, _HALF, _DEAF, _SECONDS, _PAUSE = 2000, 200, 50, 5.0, 0.01
_Opened: TypeAlias = list[asyncio.StreamWriter]


def run() -> None:
    """Print the latency of a good review every 10 ms, and of `/healthz`, without and beside each crowd."""
    with tempfile.TemporaryDirectory() as folder:
        server = requests.start(Path(folder))
        try:
            port = requests.port_of(server)
            context = ssl.create_default_context(cafile=str(Path(folder) / "tls" / "ca.crt"))
            asyncio.run(_Crowds(port, context, lambda: requests.resident(server.pid)).measure())
        finally:
            server.terminate()
            server.wait(20)


class _Crowds:
    def __init__(self, port: int, context: ssl.SSLContext, resident: Callable[[], float]) -> None:
        self._port, self._context, self._resident = port, context, resident
        self._body = reviews.trainjob_review()

    async def measure(self) -> None:
        print(f"a good review each {_PAUSE * 1e3:g} ms for {_SECONDS:g} s; milliseconds")
        print(
            f"{'beside':44} {'answers':>8} {'p50':>8} {'p99':>8} {'worst':>8} {'healthz worst':>14} {'server MiB':>11}"
        )
        await self._row("nobody", self._nobody())
        await self._row(f"{_IDLE} idle connections, TLS made", self._many(_IDLE, b""))
        await self._row(f"{_HALF} half-sent bodies of 7 MB", self._many(_HALF, self._head(7_000_000) + b" " * 500_000))
        await self._row(f"{_DEAF} clients that never read, 20 reviews each", self._many(_DEAF, self._good() * 20))
        await self._row("4 clients that send 3 MB objects", self._busy(4, 3_000_000))

    async def _row(self, name: str, crowd: contextlib.AbstractAsyncContextManager[None]) -> None:
        async with crowd:
            took, health = await asyncio.gather(
                self._ask(self._good()), self._ask(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            )
            cells = (figures.percentile(took, 0.5), figures.percentile(took, 0.99), max(took), max(health))
            shown = " ".join(f"{value * 1e3:{width}.1f}" for value, width in zip(cells, (8, 8, 8, 14), strict=True))
            print(f"{name:44} {len(took):8} {shown} {self._resident():11.0f}")

    async def _ask(self, wire: bytes) -> list[float]:
        reader, writer = await self._open()
        took, deadline = list[float](), time.perf_counter() + _SECONDS
        while (started := time.perf_counter()) < deadline:
            writer.write(wire)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]))
            took.append(time.perf_counter() - started)
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"unexpected answer: {head[:60]!r}")
            await asyncio.sleep(_PAUSE)
        writer.close()
        return took

    def _head(self, length: int) -> bytes:
        head = "POST /mutate/trainjobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {length}\r\n\r\n".encode()

    def _good(self) -> bytes:
        return self._head(len(self._body)) + self._body

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context, server_hostname="localhost")

    @contextlib.asynccontextmanager
    async def _nobody(self) -> AsyncIterator[None]:
        yield

    @contextlib.asynccontextmanager
    async def _many(self, count: int, first: bytes) -> AsyncIterator[None]:
        opened: _Opened = []
        while len(opened) < count:
            several = await asyncio.gather(*(self._open() for _ in range(10)), return_exceptions=True)
            found = [each[1] for each in several if not isinstance(each, BaseException)]
            for writer in found:
                writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport can
                writer.write(first)
            opened += found
        yield
        for writer in opened:
            writer.transport.abort()

    @contextlib.asynccontextmanager
    async def _busy(self, count: int, size: int) -> AsyncIterator[None]:
        review = orjson.loads(self._body)
        review["request"]["object"]["metadata"]["annotations"] = {"notes": "x, " * (size // 3)}
        body = orjson.dumps(review)
        tasks = [asyncio.create_task(self._ask(self._head(len(body)) + body)) for _ in range(count)]
        await asyncio.sleep(0.2)
        yield
        await asyncio.gather(*tasks)
