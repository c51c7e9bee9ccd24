"""Accepts connections, so that each is known from its first moment and can be closed at any.

asyncio's own server does not tell of a connection before its TLS handshake has ended, and waits a minute for that.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from muster.front.connections import LOOK, Connection, Connections

__all__ = ["Acceptor"]

_log = logging.getLogger(__name__)
_AT_ONCE = 16  # connections accepted before others have their turn: each costs a handshake
_BACKLOG = 1024
_PAUSE = 1.0
_SHUTDOWN = 1.0  # seconds that a client has to say goodbye


class Acceptor:
    """Accepts connections on one address.

    Args:
        connections: counts them.
        make: makes the protocol of a connection.
        context: serves the certificate; None for plain HTTP.
        handshake: seconds for the TLS handshake.
    """

    def __init__(
        self,
        connections: Connections,
        make: Callable[[Connection], asyncio.Protocol],
        context: ssl.SSLContext | None,
        handshake: float,
    ) -> None:
        self._connections = connections
        self._make = make
        self._context = context
        self._handshake = handshake
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._greetings: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None

    async def open(self, host: str, port: int) -> int:
        """Start listening; return the port, which the system chooses for port 0.

        Raises:
            OSError: the address cannot be bound.
        """
        found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in {(each[0], each[4]): None for each in found}:
            self._listening.append(socket.create_server(address[:2], family=family, backlog=_BACKLOG))
            self._listening[-1].setblocking(False)
        for sock in self._listening:
            self._loop.add_reader(sock, self._accept, sock)
        self._watch = asyncio.create_task(self._look(), name="look at connections")
        return int(self._listening[0].getsockname()[1])

    async def close(self) -> None:
        """Stop accepting; connections that are in their handshake are closed."""
        for sock in self._listening:
            self._loop.remove_reader(sock)
            sock.close()
        self._listening.clear()
        tasks = [*self._greetings, *([self._watch] if self._watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.error("no connection can be accepted", extra={"problem": str(error)})  # a traceback tells no more
                self._loop.remove_reader(listening)
                self._loop.call_later(_PAUSE, self._go_on, listening)
                return
            if self._connections.are_busy:
                sock.close()
            else:
                self._welcome(sock)

    def _welcome(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        connection = self._connections.open(sock, sock.close)
        greeting = asyncio.create_task(self._greet(sock, connection), name="greeting")
        connection.abort = greeting.cancel
        self._greetings.add(greeting)
        greeting.add_done_callback(partial(self._greeted, sock, connection))

    def _greeted(self, sock: socket.socket, connection: Connection, greeting: asyncio.Task[None]) -> None:
        self._greetings.discard(greeting)
        if greeting.cancelled() or greeting.exception() is not None:  # whoever called may have been anybody
            connection.gone()
            if not connection.greeted:
                sock.close()

    def _go_on(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening, self._accept, listening)

    async def _greet(self, sock: socket.socket, connection: Connection) -> None:
        connection.greeted = True
        protocol = self._make(connection)
        if self._context is None:
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, sock)
            connection.abort = transport.abort
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        secured = _Secured(
            self._loop,
            protocol,
            self._context,
            waiter,
            server_side=True,
            ssl_handshake_timeout=self._handshake,  # type: ignore[arg-type]  # typeshed says int; a timer takes both
            ssl_shutdown_timeout=_SHUTDOWN,
        )
        transport, _ = await self._loop.connect_accepted_socket(lambda: secured, sock)
        connection.abort = transport.abort
        await waiter
        if transport.is_closing():  # it was closed during its handshake, of which its protocol is not told
            connection.gone()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            try:
                self._connections.look()
            except Exception:  # noqa: BLE001  # without further looks, connections would pile up
                _log.exception("a look at the connections failed")


class _Secured(asyncio.sslproto.SSLProtocol):
    """TLS with a smaller buffer than asyncio's, which has 256 KiB for each connection.

    While its reader pauses, asyncio waits with the end of a connection until it goes on, which may be never.
    """

    max_size = 32 * 1024

    def eof_received(self) -> None:
        """Close the connection at once where asyncio would keep it open."""
        inherited: Callable[[], object] = super().eof_received  # typeshed says that it returns nothing
        if inherited() and isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()
