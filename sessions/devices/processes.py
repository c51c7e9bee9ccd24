"""Processes that can be ended without hitting another one: by a descriptor that was opened on them, and their start."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Process", "caller", "opened", "started"]


@dataclass(frozen=True, slots=True)
class Process:
    """A process that lived when it was opened.

    Attributes:
        pid: its number, which another process may have after it.
        start: when it started, in ticks since the machine did.
        descriptor: refers to it alone, and can be read when it has ended.
    """

    pid: int
    start: int
    descriptor: int

    def end(self) -> None:
        """End it at once, also where it hangs or is stopped; nothing happens when it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


def opened(pid: int, start: int | None = None) -> Process | None:
    """Return a process that lives, None where there is none, or one that started at another time.

    Args:
        pid: its number.
        start: when it must have started, in ticks; None for any time.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    found = started(pid)
    # What was read is of this process when it lives still.
    if found is None or start not in {None, found} or select.select([descriptor], [], [], 0)[0]:
        os.close(descriptor)
        return None
    return Process(pid, found, descriptor)


def started(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])  # the name before it may hold anything


def caller(connection: socket.socket) -> int:
    """Return the process that connected to a Unix socket, as the kernel tells it."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", told)[0])
