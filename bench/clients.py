"""A load generator that costs less than the server that it loads: prepared bytes over kept TLS connections.

Bounded in requests and time, loopback only.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass

__all__ = ["Load", "drive"]


@dataclass(frozen=True, slots=True)
class Load:
    """The result of one run: requests per second and each latency in seconds."""

    rate: float
    latencies: list[float]


async def drive(  # noqa: PLR0913  # what makes up one load
    port: int, path: str, body: bytes, *, connections: int, seconds: float, context: ssl.SSLContext
) -> Load:
    """Send the body as fast as answers come, on some connections, for some seconds.

    Raises:
        RuntimeError: an answer is not 200 with `"allowed":true`.
    """
    head = (
        f"POST {path} HTTP/1.1\r\nHost: muster\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    wire, latencies = head.encode() + body, list[float]()
    deadline = time.perf_counter() + seconds
    started = time.perf_counter()
    await asyncio.gather(*(_connection(port, wire, deadline, latencies, context) for _ in range(connections)))
    return Load(len(latencies) / (time.perf_counter() - started), latencies)


async def _connection(port: int, wire: bytes, deadline: float, latencies: list[float], context: ssl.SSLContext) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    while (started := time.perf_counter()) < deadline:
        writer.write(wire)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer = await reader.readexactly(length)
        latencies.append(time.perf_counter() - started)
        if not head.startswith(b"HTTP/1.1 200") or b'"allowed":true' not in answer:
            raise RuntimeError(f"unexpected answer: {head[:60]!r} {answer[:200]!r}")
    writer.close()
    await writer.wait_closed()
