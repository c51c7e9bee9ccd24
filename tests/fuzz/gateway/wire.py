"""Bytes to a Gateway and what it answers: each answer as it is, or that the connection was closed."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import dataclass, field

__all__ = ["Answer", "Sent", "exchanged"]

_PATIENCE = 60.0
_MOMENT = 0.05  # seconds between pieces of who sends slowly, and for an answer that need not come


@dataclass
class Sent:
    """What is sent on one connection.

    Attributes:
        pieces: one after the other.
        most: answers that there may be at most; more of them would be smuggled.
        whole: whether that many have to come, unless the connection is closed.
        end: what is done then: `read`, `close`, `half` (no more is sent, and answers are read) or `reset`.
        statuses: that the answers may have; any when it is empty.
        slow: whether there is a moment after each piece.
        heads: whether answers have no bodies.
    """

    pieces: list[bytes]
    most: int = 1
    whole: bool = True
    end: str = "read"
    statuses: frozenset[int] = frozenset()
    slow: bool = False
    heads: bool = False


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes = b""
    interim: list[int] = field(default_factory=list)

    def json(self):
        return json.loads(self.body)


async def exchanged(port, sent, between):
    """Send, wait for what happens between, and return the answers, and whether the connection was closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    answers, closed = [], False
    try:
        await _send(writer, sent)
        await between()
        if sent.end == "half" and writer.can_write_eof():
            writer.write_eof()
        if sent.end in {"close", "reset"}:
            if sent.end == "reset":
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return answers, True
        async with asyncio.timeout(_PATIENCE if sent.whole else 5 * _MOMENT):
            while len(answers) < sent.most + (not sent.whole):
                answers.append(await _answer(reader, sent.heads))
                if answers[-1].headers.get("connection") == "close":
                    closed = True
    except (ConnectionError, asyncio.IncompleteReadError):
        closed = True
    except TimeoutError:
        if sent.whole:
            raise
    finally:
        writer.transport.abort() if sent.end == "reset" else writer.close()
    return answers, closed


async def _send(writer, sent):
    for piece in sent.pieces:
        writer.write(piece)
        await asyncio.wait_for(_drained(writer), _PATIENCE)
        if sent.slow:
            await asyncio.sleep(_MOMENT / 10)


async def _drained(writer):
    try:
        await writer.drain()
    except ConnectionError:
        return  # what was answered before is still read


async def _answer(reader, heads, interim=()):
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    version, status, *_ = first.split(" ", 2)
    if not version.startswith("HTTP/"):
        raise AssertionError(f"no HTTP: {first!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip().lower() if name.lower() != "location" else value.strip()
    if int(status) < 200:
        if int(status) == 101:
            return Answer(101, headers)
        return await _answer(reader, heads, [*interim, int(status)])
    answer = Answer(int(status), headers, interim=list(interim))
    if heads or int(status) in {204, 304}:
        return answer
    if headers.get("transfer-encoding") == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            answer.body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
    elif "content-length" in headers:
        answer.body = await reader.readexactly(int(headers["content-length"]))
    else:
        answer.body = await reader.read()
    return answer
