"""A line between a Muster and its API server, which a test can cut, stall and slow down.

A TCP proxy on loopback. What breaks in real networks breaks here in the same way: a cut line sends RST, a stalled one
says nothing at all (a firewall that forgot a connection sends no FIN), a slow one delivers late. It runs on an event
loop in a thread of its own: sockets closed in one thread and used in another would take each other's descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Line"]

_CHUNK = 65536
_END = 5.0  # seconds for what is cut to notice
_RESET = struct.pack("ii", 1, 0)
_Result = TypeVar("_Result")


class Line:
    """A proxy to one address, in order until told otherwise.

    Args:
        host, port: the address of the API server.

    Attributes:
        port: where the proxy listens, on 127.0.0.1.
        delay: seconds that each piece of data waits, in both directions.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._connections: set[_Connection] = set()
        self._is_cut = False
        self.delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="line", daemon=True)
        self._thread.start()
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(listener.getsockname()[1])
        starting = asyncio.start_server(self._accept, sock=listener)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)

    def cut(self) -> None:
        """Reset all connections, and each new one, until `mend`."""
        self._do(self._cut)

    def mend(self) -> None:
        """Let new connections through again, at once."""
        self._is_cut, self.delay = False, 0.0

    def stall(self) -> int:
        """Deliver nothing more on the connections that stand now, without ending them; return how many these are."""
        return self._do(self._stall)

    def close(self) -> None:
        """End the proxy and all connections."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, act: Callable[[], _Result]) -> _Result:
        async def called() -> _Result:
            return act()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(10)

    def _cut(self) -> None:
        self._is_cut = True
        for each in self._connections:
            each.reset()

    def _stall(self) -> int:
        for each in self._connections:
            each.stalled = True
        return len(self._connections)

    async def _close(self) -> None:
        # A server that is closed, or a task that is cancelled, in the middle of an accept leaves that socket open: so
        # nothing more is accepted, cut connections end first, and then the server is closed.
        for listener in self._server.sockets:
            self._loop.remove_reader(listener.fileno())
        self._cut()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            _, late = await asyncio.wait(others, timeout=_END)
            for task in late:
                task.cancel()
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            _reset(writer)
            return
        try:
            outer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        connection = _Connection((reader, writer), outer)
        if self._is_cut:
            connection.reset()
            return
        self._connections.add(connection)
        try:
            await asyncio.gather(*(self._carry(connection, *way) for way in connection.ways))
        finally:
            self._connections.discard(connection)
            connection.reset()

    async def _carry(self, connection: _Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if connection.stalled:
                    continue  # dropped: the other side waits forever
                sink.write(data)
                await sink.drain()
        if not connection.stalled:
            connection.reset()


class _Connection:
    """Two streams, tied together."""

    def __init__(
        self,
        inner: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        outer: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.ways = ((inner[0], outer[1]), (outer[0], inner[1]))
        self.stalled = False

    def reset(self) -> None:
        """End both sides with RST."""
        for _, writer in self.ways:
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
