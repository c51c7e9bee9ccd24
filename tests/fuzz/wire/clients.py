"""Clients that mean no good: they send bytes, and read what comes back, strictly."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import re
import socket
import ssl
import struct
from dataclasses import dataclass, field

from muster.certs import authorities, leaves, materials
from tests.support import waits

__all__ = ["Answer", "Handshakes", "Outcome", "attack"]

_HEAD = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n")
_PIECE = 64 * 1024
_NOW = struct.pack("ii", 1, 0)


@dataclass
class Answer:
    """One answer.

    Attributes:
        status: of HTTP.
        head: its bytes.
        body: as above.
    """

    status: int
    head: bytes
    body: bytes = b""


@dataclass
class Outcome:
    """What came of an attack.

    Attributes:
        raw: all bytes that came back.
        answers: those of them that are whole.
        left: bytes behind the last whole answer.
        ended: whether the service ended the connection.
        refused: whether there was no connection, as the handshake failed.
        stalled: whether nothing came for a minute, and no end.
    """

    raw: bytes = b""
    answers: list = field(default_factory=list)
    left: bytes = b""
    ended: bool = False
    refused: str = ""
    stalled: bool = False


class Handshakes:
    """The ways in which clients shake hands, each a TLS context and the name that is asked for.

    Args:
        target: the program; one that speaks plain HTTP has one way.
    """

    def __init__(self, target):
        self._ways = {"": (None, None), "good": (target.context, "localhost" if target.context else None)}
        if target.context is None:
            return
        old, modern, known, free = (ssl.create_default_context(cafile=str(target.folder / "ca.crt")) for _ in range(4))
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        modern.set_alpn_protocols(["h2", "h3", "a" * 200])
        pem = target.folder / "client.pem"
        pem.write_bytes(_own())
        known.load_cert_chain(pem)
        free.check_hostname, free.verify_mode = False, ssl.CERT_NONE
        self._ways |= {
            "old": (old, "localhost"),
            "alpn": (modern, "localhost"),
            "client": (known, "localhost"),
            "long": (free, ".".join(["a" * 60] * 4)),
            "nobody": (free, ""),
            "addressed": (free, "evil.example"),
        }

    def __getitem__(self, name):
        return self._ways[name]


def _own():
    """Return a certificate of the client's own making, with its key."""
    now = datetime.datetime.now(datetime.UTC)
    authority = authorities.create(now)
    made = materials.from_authority(authority, leaves.issue(authority, ["nobody"], now))
    return made.key_pem + made.chain_pem


async def attack(target, ways, one, heard):
    """Do what an attack says.

    Args:
        target: the program.
        ways: how clients shake hands.
        one: the attack.
        heard: is awaited before a connection is cut: somebody else is answered meanwhile.
    """
    outcome = Outcome()
    context, name = ways[one.tls]
    try:
        async with asyncio.timeout(waits.LIMIT):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", target.port, ssl=context, server_hostname=name, limit=_PIECE
            )
    except TimeoutError:
        outcome.stalled = True
        return outcome
    except (OSError, ValueError) as error:
        outcome.refused = str(error) or type(error).__name__
        return outcome
    taking = asyncio.create_task(_taken(one, reader, outcome))
    try:
        await _sent(one, writer)
        if one.ends == "reads":
            await taking
        elif one.ends == "cuts":
            await heard()
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        if one.ends == "resets" and (sock := writer.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
        writer.transport.abort()
    outcome.answers, outcome.left = _answers(outcome.raw, bare=one.bare)
    return outcome


async def _sent(one, writer):
    with contextlib.suppress(OSError):
        for part in one.parts:
            writer.write(part)
            async with asyncio.timeout(waits.LIMIT):
                await writer.drain()
            await asyncio.sleep(0)
        raw, sock = one.further.get("raw"), writer.get_extra_info("socket")
        if raw and sock is not None:
            os.write(sock.fileno(), raw)


async def _taken(one, reader, outcome):
    """Read until there are as many answers as are awaited, or the connection ends."""
    told = bytearray()
    try:
        while True:
            async with asyncio.timeout(waits.LIMIT):
                piece = await reader.read(_PIECE)
            if not piece:
                break
            told += piece
            outcome.raw = bytes(told)
            found, left = _answers(outcome.raw, bare=one.bare)
            if sum(not 0 < each.status < 200 for each in found) >= one.awaited and not left:
                return
        outcome.ended = True
    except TimeoutError:
        outcome.stalled = True
    except OSError:
        outcome.ended = True


def _answers(raw, *, bare):
    """Split bytes into whole answers and what is left; what is no HTTP/1 is an answer with status 0."""
    found, at = [], 0
    while at < len(raw):
        end = raw.find(b"\r\n\r\n", at)
        if end < 0:
            break
        first = _HEAD.match(raw, at)
        if first is None:
            return [*found, Answer(0, raw[at:])], b""
        top, status, body = raw[at : end + 4], int(first[1]), end + 4
        if status < 200 or bare:
            found.append(Answer(status, top))
            at = body
            continue
        size = re.search(rb"\r\ncontent-length: (\d+)\r\n", top.lower())
        if size is None:  # chunks: an export
            stop = raw.find(b"0\r\n\r\n", body)
            last = -1 if stop < 0 else stop + 5
        else:
            last = body + int(size[1])
        if last < 0 or last > len(raw):
            break
        found.append(Answer(status, top, raw[body:last]))
        at = last
    return found, raw[at:]
