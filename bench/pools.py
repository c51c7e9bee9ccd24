"""Requests to an API server on a bounded number of connections: prepared bytes, TLS, answers of any length.

`clients` sends as fast as answers come; here each request is due at its time, and waits for a connection if it has to.
Both send bytes over asyncio's streams, because a heavier client would use the cores that it measures.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import subprocess
import urllib.parse
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

__all__ = ["Answer", "Pool", "Server", "current"]

_Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Server:
    """An API server and the credentials for it.

    Attributes:
        host: its host name or address.
        port: its TCP port.
        token: a bearer token.
        context: a TLS context that trusts its certificate.
    """

    host: str
    port: int
    token: str
    context: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Answer:
    """The HTTP status and the body, chunks and all."""

    status: int
    body: bytes


def current(*kubectl: str) -> Server:
    """Return the server of the current kubeconfig, as kubectl reads it; its user must have a token.

    Args:
        kubectl: the command, `kubectl` by default.

    Raises:
        RuntimeError: the user has no token.
    """
    command = [*(kubectl or ("kubectl",)), "config", "view", "--raw", "--minify", "--flatten"]
    shown = subprocess.run(command, check=True, capture_output=True)  # noqa: S603  # the caller's own kubectl
    config: dict[str, Any] = yaml.safe_load(shown.stdout)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    if "token" not in user:
        raise RuntimeError("the user of the current kubeconfig has no token; this load cannot log in otherwise")
    where = urllib.parse.urlsplit(cluster["server"])
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return Server(where.hostname or "", where.port or 443, user["token"], ssl.create_default_context(cadata=authority))


class Pool:
    """Connections to one server, kept while they are good.

    Args:
        server: the API server.
        patience: seconds for one request, including the connection but not the wait for a free one.
        limit: the most connections; further requests wait in order. Without a limit, a server that falls behind would
            spend its time on handshakes instead of answers.
    """

    def __init__(self, server: Server, patience: float, limit: int) -> None:
        self._server = server
        self._patience = patience
        self._turns = asyncio.Semaphore(limit)
        self._free: list[_Streams] = []

    async def post(self, path: str, body: bytes) -> Answer:
        """Send a JSON document.

        Raises:
            OSError, EOFError, TimeoutError: no complete answer came.
        """
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._server.host}\r\nAuthorization: Bearer {self._server.token}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        async with self._turns, asyncio.timeout(self._patience):
            streams = self._kept() or await self._opened()
            try:
                streams[1].write(head.encode() + body)
                answer = await _answer(streams[0])
            except BaseException:
                streams[1].close()
                raise
            self._free.append(streams)
            return answer

    async def close(self) -> None:
        """Close the free connections."""
        for _, writer in self._free:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in self._free), return_exceptions=True)

    def _kept(self) -> _Streams | None:
        """Return the connection that was used last, so that few are in use; the server closes idle ones."""
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return None

    async def _opened(self) -> _Streams:
        return await asyncio.open_connection(self._server.host, self._server.port, ssl=self._server.context)


async def _answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" in head:
        return Answer(status, await reader.readuntil(_END_OF_CHUNKS))
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return Answer(status, await reader.readexactly(length))
