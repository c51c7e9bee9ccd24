"""Connections: how many are open, and how long each may take for what it does.

An open connection costs a descriptor and memory, whoever opened it. The API server opens some, uses them often and
needs new ones at any time, so a new connection is turned away only while all are being answered. Where there are too
many, one that does nothing is closed: of the fresh ones (no request yet), of those that send slowly, or of the kept
ones (between two requests), whichever are most, the one that has been like that for longest. So nobody can fill all
places and keep them, and a connection that is being used is not the oldest of its sort. A connection whose review is
being answered is left alone; the number of these is bounded by `server.inFlightLimit`.

Ages are counted in looks, not read from a clock: after the process itself has stood still, nobody is late.
"""

from __future__ import annotations

import fcntl
import resource
import socket
import struct
import termios
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

__all__ = ["LOOK", "Connection", "Connections", "Limits", "State"]

LOOK = 0.5
"""Seconds between two looks at all connections."""
_FEWEST = 16
_ACKED, _AT = struct.Struct("=Q"), 120  # of struct tcp_info, since Linux 4.1


@dataclass(frozen=True, slots=True)
class Limits:
    """What connections may cost.

    Attributes:
        connections: open ones; each takes 60 kB with TLS.
        bodies: bytes of all bodies in memory.
        slow: seconds for the TLS handshake, for a request without its body, and for a client to take its answer; twice
            as many from the beginning of a connection to its first request.
        idle: seconds between two requests of a connection that has made a good one.
        reserved: descriptors for files, the API server, engines and the event loop itself.
    """

    connections: int = 1000
    bodies: int = 64 * 1024 * 1024
    slow: float = 5.0
    idle: float = 120.0
    reserved: int = 128


class State(Enum):
    """What a connection does: `FRESH` has made no (good) request, `SENDING` has begun one, `ARRIVING` sends its body.

    `BUSY` waits for the answer to a review, `KEPT` is between two requests. A request that is not a review has no body
    to wait for and stays `ARRIVING`.
    """

    FRESH = "fresh"
    SENDING = "sending"
    ARRIVING = "arriving"
    BUSY = "busy"
    KEPT = "kept"


_CLOSABLE = (State.FRESH, State.SENDING, State.ARRIVING, State.KEPT)


class Connection:
    """One open connection.

    Args:
        table: where it is counted.
        sock: its socket.
        abort: closes it at once.

    Attributes:
        abort: as above; another function after its handshake.
        greeted: whether its handshake has begun, after which its transport closes the socket.
        since: the look at which it began what it does.
        state: what it does.
    """

    __slots__ = ("_due", "_sock", "_stuck", "_table", "abort", "greeted", "since", "state")

    def __init__(self, table: Connections, sock: socket.socket, abort: Callable[[], object]) -> None:
        self._table = table
        self._sock = sock
        self._stuck = self._due = 0
        self.abort = abort
        self.greeted = False
        self.state = State.FRESH
        self.since = 0

    def enter(self, state: State) -> None:
        """Do something else from now on; for who began it before, the time goes on."""
        if state is not self.state or state in (State.FRESH, State.KEPT):
            self._table.move(self, state)

    def heard(self) -> None:
        """Bytes have come."""
        if self.state in (State.FRESH, State.KEPT):
            self._table.move(self, State.SENDING)

    def gone(self) -> None:
        """It is closed."""
        self._table.remove(self)

    def looks_stuck(self) -> int:
        """Return the number of looks at which the client had not taken what was sent to it before the first of them.

        Who is sent one answer after another, and takes each, may have a later one to take at every look.
        """
        unsent, taken = _unsent(self._sock), _taken(self._sock)
        if not unsent or taken >= self._due:
            self._stuck, self._due = 0, taken + unsent
        self._stuck += bool(unsent)
        return self._stuck


class Connections:
    """All open connections.

    Args:
        limits: what they may cost; fewer where the process may not open as many descriptors.
        closed: is told why one was closed: `crowded`, `slow`.
    """

    def __init__(self, limits: Limits, closed: Callable[[str], None] = lambda _why: None) -> None:
        found = _descriptors(limits.connections + limits.reserved)
        self.limit = max(_FEWEST, min(limits.connections, found - limits.reserved))
        self._closed = closed
        self._patience = max(1, round(limits.slow / LOOK))
        self._looks = 0
        self._by_state: dict[State, dict[Connection, None]] = {state: {} for state in State}  # the oldest first

    def __len__(self) -> int:
        """The number of open connections."""
        return sum(map(len, self._by_state.values()))

    def counts(self) -> dict[str, float]:
        """Return the number of open connections by state."""
        return {state.value: float(len(found)) for state, found in self._by_state.items()}

    def __iter__(self) -> Iterator[Connection]:
        """All of them."""
        for found in self._by_state.values():
            yield from tuple(found)

    @property
    def are_busy(self) -> bool:
        """Whether there are as many as may be, and each waits for an answer: none can be closed for another."""
        return len(self._by_state[State.BUSY]) >= self.limit

    def open(self, sock: socket.socket, abort: Callable[[], object]) -> Connection:
        """Count a new connection, and close another one when there are too many."""
        if len(self) >= self.limit:
            self._make_room()
        connection = Connection(self, sock, abort)
        connection.since = self._looks
        self._by_state[State.FRESH][connection] = None
        return connection

    def move(self, connection: Connection, state: State) -> None:
        """Count a connection among those of another state."""
        if self._by_state[connection.state].pop(connection, connection) is None:
            connection.state, connection.since = state, self._looks
            self._by_state[state][connection] = None

    def remove(self, connection: Connection) -> None:
        """Count a connection no longer."""
        self._by_state[connection.state].pop(connection, None)

    def look(self) -> None:
        """Close those that take too long; to be called every `LOOK` seconds."""
        self._looks += 1
        for state, patience in ((State.FRESH, 2 * self._patience), (State.SENDING, self._patience)):
            for connection in tuple(self._by_state[state]):
                if self._looks - connection.since <= patience:
                    break
                self._close(connection, "slow")
        for state in (State.ARRIVING, State.BUSY, State.KEPT):
            for connection in tuple(self._by_state[state]):
                if connection.looks_stuck() > self._patience:
                    self._close(connection, "slow")

    def _make_room(self) -> None:
        most = max((self._by_state[state] for state in _CLOSABLE), key=len)
        if most:
            self._close(next(iter(most)), "crowded")

    def _close(self, connection: Connection, why: str) -> None:
        self.remove(connection)
        self._closed(why)
        connection.abort()


def _unsent(sock: socket.socket) -> int:
    """Return the bytes that the other side has not taken (`SIOCOUTQ`, tcp(7)); then more may wait in this process."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0])
    except (OSError, ValueError):
        return 0


def _taken(sock: socket.socket) -> int:
    """Return the bytes that the other side has taken (`tcpi_bytes_acked`, linux/tcp.h); -1 where nobody counts them."""
    try:
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED.size + _AT)
        return int(_ACKED.unpack_from(told, _AT)[0])
    except (OSError, ValueError, struct.error):
        return -1


def _descriptors(wanted: int) -> int:
    """Return how many descriptors this process may open, after asking for as many as are wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
