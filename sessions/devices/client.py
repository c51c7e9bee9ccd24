"""How an engine takes turns: it asks for the device, keeps it while nobody waits, and leaves when it is asked to.

One thread computes and calls `hold`, `done`, `leave` and `come`; another one reads what the agent says. When the agent
is gone, an engine gives its memory up, waits for the next agent, and joins that.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from muster.sessions.devices import lines

__all__ = ["Turn"]

_PAUSE = 0.2  # seconds between tries to reach an agent


class Turn:
    """The turn of this process on a device.

    Args:
        path: socket of the agent.
        join: what this engine is.
        enter: brings its memory to the device.
        away: moves it to the host, or drops it.
        wake: is called, on another thread, when the engine is to leave, or its agent is gone.

    Attributes:
        is_resident: whether it has memory on the device.

    Raises:
        ValueError: where the agent refuses it, with its sentence.
    """

    def __init__(
        self,
        path: Path,
        join: lines.Join,
        enter: Callable[[], None],
        away: Callable[[], None],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._path, self._told = path, asdict(join)
        self._enter, self._away, self._wake = enter, away, wake
        self._state = threading.Condition()
        self._socket: socket.socket | None = None
        self._has_joined = self._is_to_leave = self._has_moved = False
        self._granted: int | None = None  # the number of the grant; None while it may not compute
        self._number = 0  # of the last grant
        self._refusal = ""
        self.is_resident = False
        self.come()

    @property
    def is_to_leave(self) -> bool:
        """Whether the memory is to be given up when what is computed is done, also because the agent is gone."""
        return self.is_resident and (self._is_to_leave or self._socket is None)

    @property
    def is_lost(self) -> bool:
        """Whether the agent is gone and this engine has no memory there: the next one waits until it has joined."""
        return not self.is_resident and self._socket is None

    def hold(self) -> None:
        """Wait until this engine may compute, with its memory on the device."""
        while not self._may_compute():
            if self.is_to_leave:
                self.leave()
            else:
                self._ask()
        if not self.is_resident:
            self.is_resident = True
            self._enter()

    def done(self) -> None:
        """Tell that nothing is to be computed for now; the memory stays."""
        with self._state:
            if self._granted is not None:
                self._send("done", self._granted)
                self._granted = None

    def leave(self) -> None:
        """Give up the memory."""
        with self._state:
            while True:
                self._reach()
                self._has_moved = False
                self._send("moving", True)
                if self._state.wait_for(lambda: self._has_moved or self._socket is None) and self._has_moved:
                    break
        self._away()
        with self._state:
            self.is_resident, self._granted = False, None
            if self._has_joined:
                self._is_to_leave = False
                self._send("left", self._number)
        self.come()

    def _may_compute(self) -> bool:
        with self._state:
            return self._granted is not None and self._socket is not None

    def _ask(self) -> None:
        """Ask, and wait for the grant, the wish that it leave, or the end of the agent."""
        self.come()
        with self._state:
            self._send("ask", True)
            self._state.wait_for(lambda: self._granted is not None or self._socket is None or self.is_to_leave)

    def come(self) -> None:
        """Join an agent, where this engine has no memory and has not joined. Raises `ValueError` when it refuses."""
        with self._state:
            while not self.is_resident and not (self._has_joined and self._socket):
                self._reach()
                self._send("join", self._told)
                self._state.wait_for(lambda: self._has_joined or bool(self._refusal) or self._socket is None)
                if self._refusal:
                    raise ValueError(self._refusal)

    def _reach(self) -> None:
        """Connect to an agent, however long that takes."""
        while self._socket is None:
            found = socket.socket(socket.AF_UNIX)
            try:
                found.connect(str(self._path))
            except OSError:
                found.close()
                self._state.wait(_PAUSE)
                continue
            self._socket, self._granted, self._has_joined, self._is_to_leave = found, None, False, False
            threading.Thread(target=self._read, args=(found,), daemon=True, name="turn").start()

    def _send(self, word: str, value: Any) -> None:
        """Write to the agent; that it is gone is found by whoever reads."""
        with suppress(OSError):
            if self._socket is not None:
                self._socket.sendall(lines.line(word, value))

    def _read(self, found: socket.socket) -> None:
        with found, found.makefile("rb") as file, suppress(OSError, ValueError):
            for text in file:
                self._heard(found, *lines.word(text))
        with self._state:
            if self._socket is found:
                self._socket, self._granted = None, None
            self._state.notify_all()
        self._wake()

    def _heard(self, found: socket.socket, word: str, value: Any) -> None:
        with self._state:
            if found is not self._socket:
                return
            match word:
                case "joined":
                    self._has_joined = True
                case "grant":
                    self._granted = self._number = value
                case "leave":
                    self._is_to_leave = True
                case "moved":
                    self._has_moved = True
                case "refused":
                    self._refusal = str(value)
            self._state.notify_all()
        if word == "leave":
            self._wake()
