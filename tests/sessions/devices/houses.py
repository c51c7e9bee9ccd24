"""An agent and engines as real processes, on a budget of memory that a control group enforces, or on a GPU."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

from muster.sessions.devices.memory import Budget, DeviceError

ROOT = Path(__file__).parents[3]
LIMIT = 160  # MiB of the device, into which one engine fits, and no two
SIZE = 100  # MiB of an engine


def missing():
    """Return why there can be no budget here; empty where there can."""
    try:
        probe = Budget(f"muster-device-probe-{os.getpid()}", 64 << 20)
        probe.open()
        probe.remove()
    except DeviceError as error:
        return str(error)
    return ""


class Process:
    """A process whose lines are read as they come."""

    def __init__(self, *command, log):
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                cwd=ROOT,
            )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.strip())
        self._lines.put(None)

    def told(self, text, within=60):
        """Wait for a line; what comes before it is dropped."""
        deadline = time.monotonic() + within
        while (line := self._lines.get(timeout=max(0.01, deadline - time.monotonic()))) != text:
            assert line is not None, f"it ended before {text!r}"

    def next(self, begins, within=60):
        """Wait for a line that begins so, and return it; what comes before it is dropped."""
        deadline = time.monotonic() + within
        while not (line := self._lines.get(timeout=max(0.01, deadline - time.monotonic()))).startswith(begins):
            pass
        return line

    def says(self, text):
        """Return whether a line has come that was not looked at."""
        return text in self._lines.queue

    def tell(self, text):
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def send(self, what):
        self.process.send_signal(what)

    def ended(self, within=60):
        return self.process.wait(within)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        with suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()


class House:
    """A device, its agent, and engines; without a GPU the device is a budget."""

    def __init__(self, folder, *options, gpu=""):
        self.socket, self._log, self._options = folder / "device.sock", folder / "log", options
        self.name = uuid.uuid4().hex[:8]
        self.processes = []
        self.agent = None
        self.limit = LIMIT
        self.gpu = gpu

    def start(self):
        options = ("--turn", "0.3", "--leaving", "2", "--freeing", "0.3", *self._options)  # the last of each counts
        device = f"nvidia:{self.gpu}" if self.gpu else f"budget:{self.name}:{self.limit}"
        where = ("--device", device, "--socket", str(self.socket))
        self.agent = Process("-m", "muster.sessions.devices.agent", *where, *options, log=self._log)
        self.processes.append(self.agent)
        self.agent.told("serving")
        return self

    def engine(self, session, *lies, size=SIZE):
        program = ROOT / "tests/sessions/devices/programs/engine.py"
        words = (*lies, "cuda") if self.gpu else lies
        made = Process(str(program), str(self.socket), session, str(size), *words, log=self._log)
        self.processes.append(made)
        made.told("joined")
        return made

    def status(self):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self.socket))
            asking.sendall(b'{"status": true}\n')
            with asking.makefile("rb") as file:
                return json.loads(file.read())["status"]

    def until(self, is_so, within=60):
        """Wait until the status is so, and return it."""
        deadline = time.monotonic() + within
        while not is_so(status := self.status()):
            assert time.monotonic() < deadline, status
            time.sleep(0.02)
        return status

    def log(self):
        return self._log.read_text()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        for each in self.processes:
            each.end()
        if not self.gpu:
            Budget(f"muster-device-{self.name}", LIMIT << 20).remove()
