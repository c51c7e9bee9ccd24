"""Requests that end before they are whole: what a client sends, and how it goes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import socket
import struct
from collections.abc import Iterator

from tests.support import waits

__all__ = ["ENDS", "HIDDEN", "ambiguous", "answered", "cut", "points"]

ENDS = ("reset", "end of file", "close")
"""How a client goes: RST, FIN without more, and FIN behind TLS's close_notify."""
_NOW = struct.pack("ii", 1, 0)
HIDDEN = "/hidden-request"
"""A path that no server has; whoever answers 404 has taken a part of a request for one of its own."""
_AMBIGUOUS = (
    ("POST", "Transfer-Encoding: gzip, chunked\r\n"),
    ("POST", "Transfer-Encoding: identity, chunked\r\n"),
    ("POST", "Transfer-Encoding: identity\r\nContent-Length: 0\r\n"),
    ("POST", "Transfer-Encoding: chunked, chunked\r\n"),
    ("POST", "Transfer-Encoding:\r\nContent-Length: {}\r\n"),
    ("POST", "Content-Length: {}\r\nTransfer-Encoding: \r\n"),
    ("POST", "Transfer-Encoding: chunked\r\nContent-Length: {}\r\n"),
    ("CONNECT", "Content-Length: {}\r\n"),
    ("CONNECT", ""),
)


def points(path: str, more: str = "") -> Iterator[bytes]:
    """Yield every beginning of a request with a body of a length, and of one in chunks with a trailer.

    Args:
        path: where it goes.
        more: further lines of the head.
    """
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
    for rest in (
        "Content-Length: 9\r\n\r\n" + '{"a": 12}',
        'Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n4;x=y\r\n{"a"\r\n5\r\n: 12}\r\n0\r\nX: trailer\r\n\r\n',
    ):
        whole = f"{head}{rest}".encode()
        yield from (whole[:length] for length in range(len(whole)))


def ambiguous(path: str, more: str = "") -> Iterator[bytes]:
    """Yield requests whose end two servers may see in two places, each with another request behind or within it."""
    hidden = f"GET {HIDDEN} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"
    for (method, lines), last in itertools.product(_AMBIGUOUS, ("", "0\r\n\r\n")):
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}{lines.format(len(last + hidden))}\r\n"
        yield f"{head}{last}{hidden}".encode()


async def cut(port, sent, end, tls=None):
    """Send the beginning of a request, and go."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
    )
    with contextlib.suppress(OSError):
        writer.write(sent)
        await writer.drain()
        sock = writer.get_extra_info("socket")
        if end == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
        elif end == "end of file":
            sock.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(waits.LIMIT):
                await reader.read()
    if end == "close":
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    else:
        writer.transport.abort()


async def answered(port, sent, tls=None):
    """Send bytes, and return the status of each answer until the server ends the connection."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
    )
    writer.write(sent)
    try:
        async with asyncio.timeout(waits.LIMIT):
            with contextlib.suppress(ConnectionResetError):
                told = await reader.read()
    finally:
        writer.transport.abort()
    return [int(each) for each in re.findall(rb"HTTP/1\.[01] (\d{3}) ", told)]
