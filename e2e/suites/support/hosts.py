"""Muster as a process of this machine, in the cluster without nodes that `e2e.cluster` makes.

Everything is done by what is in the cluster's state folder, so that `python -m e2e.cluster down` also ends what a test
that crashed has left behind.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import places, processes
from e2e.suites.support import metrics, musters, waits
from e2e.suites.support.kubectls import Kubectl

__all__ = ["Processes"]

_NAME = "muster"
_CHILDREN: dict[Path, subprocess.Popen[bytes]] = {}  # by state folder; they outlive every test and fixture


class Processes:
    """An `Installation` that is a component of a cluster in a state folder.

    Args:
        kubectl: kubectl for the cluster.
        state: the folder.
    """

    def __init__(self, kubectl: Kubectl, state: Path) -> None:
        self._kubectl = kubectl
        self._places = places.Places(state.resolve())
        self._component = self._places.state / "components" / f"{_NAME}.json"

    def stop(self) -> None:
        """See `Installation`."""
        processes.end(self._places, _NAME)
        self._ended()

    def kill(self, *, for_good: bool = False) -> None:  # noqa: ARG002  # nothing starts a process again
        """See `Installation`."""
        for pid in self._pids():
            os.kill(pid, signal.SIGKILL)
        waits.until("Muster's process to be gone", lambda: not self._pids(), 10)
        self._ended()

    def start(self) -> None:
        """See `Installation`."""
        self._again()
        self.wait_ready()

    def restart(self) -> None:
        """See `Installation`."""
        self.stop()
        self.start()

    def wait_ready(self, seconds: float = 60) -> None:
        """See `Installation`."""
        musters.wait_ready(self._kubectl, seconds)
        # As a Deployment's probe does: an answer can come before the caches are full, and another be refused for that.
        waits.until("Muster to say that it is ready", self._says_ready, seconds)

    @contextmanager
    def configure(self, changes: Mapping[str, Any]) -> Iterator[None]:
        """See `Installation`."""
        file = self._config()
        before = file.read_text()
        self._put(file, musters.changed(before, changes))
        try:
            self.restart()
            yield
        finally:
            self._put(file, before)
            self.restart()

    @contextmanager
    def reloaded(self, changes: Mapping[str, Any]) -> Iterator[None]:
        """See `Installation`."""
        file = self._config()
        before = file.read_text()
        self._put(file, musters.changed(before, changes))
        try:
            yield
        finally:
            self._put(file, before)

    @contextmanager
    def impostor(self, script: Path, environment: Mapping[str, str] | None = None) -> Iterator[None]:
        """See `Installation`."""
        known = musters.environment(self._config().read_text())
        command = [sys.executable, str(script.resolve())]
        with self._replaced(command, {**known, **(environment or {})}):
            self._again()
            host = "127.0.0.1" if known["MUSTER_HOST"] == "0.0.0.0" else known["MUSTER_HOST"]
            address = (host, int(known["MUSTER_PORT"]))
            waits.until(f"{script.name} to listen", lambda: _is_open(address), 10)
            yield

    @contextmanager
    def plugin(self, folder: Path) -> Iterator[None]:
        """See `Installation`."""
        component = self._described()
        present = component["environment"].get("PYTHONPATH") or os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(folder.resolve()), *([present] if present else [])])
        with self._replaced(component["command"], {**component["environment"], "PYTHONPATH": path}):
            self.start()
            yield

    def log(self, since: datetime.datetime | None = None) -> list[str]:
        """See `Installation`."""
        lines = self._places.log(_NAME).read_text(errors="replace").splitlines()
        return musters.since((line for line in lines if not musters.is_record(line)), since)

    def audit(self, namespace: str | None = None) -> list[dict[str, Any]]:
        """See `Installation`."""
        config = yaml.safe_load(self._config().read_text())
        file = Path(config["audit"]["file"]["path"])
        files = [file.with_name(f"{file.name}.{number}") for number in range(9, 0, -1)] + [file]
        lines = (line for each in files if each.exists() for line in each.read_text(errors="replace").splitlines())
        return musters.records(lines, namespace)

    def memory(self) -> int:
        """See `Installation`."""
        found = [_resident(pid) for pid in self._pids()]
        assert found, "Muster does not run"
        return max(found)

    def restart_api_server(self) -> None:
        """See `Installation`."""
        musters.restart_api_server(self._kubectl)

    @contextmanager
    def _replaced(self, command: list[str], environment: Mapping[str, str]) -> Iterator[None]:
        """Make the component another program, which is stopped at the end; then Muster runs as before."""
        before = self._component.read_text()
        self.stop()
        self._put(self._component, json.dumps({"command": command, "environment": dict(environment)}))
        try:
            yield
        finally:
            self._put(self._component, before)
            self.restart()

    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads(self._component.read_text())
        return described

    def _config(self) -> Path:
        return self._places.configs / f"{_NAME}.yaml"

    def _put(self, file: Path, text: str) -> None:
        """Write a file such that nobody reads half of it."""
        half = file.with_name(f".{file.name}.half")
        half.write_text(text)
        half.replace(file)

    def _says_ready(self) -> bool:
        port = yaml.safe_load(self._config().read_text())["server"]["port"]
        return bool(metrics.get(f"https://127.0.0.1:{port}/readyz"))

    def _pids(self) -> list[int]:
        return list(processes.running(self._places, _NAME))

    def _again(self) -> None:
        child = processes.again(self._places, _NAME)
        if child is not None:
            _CHILDREN[self._places.state] = child

    def _ended(self) -> None:
        """Wait until nothing listens, and reap the process if it is a child of this one."""
        config = yaml.safe_load(self._config().read_text())
        address = ("127.0.0.1", int(config["server"]["port"]))
        waits.until("Muster's port to be closed", lambda: not _is_open(address), 20)
        if child := _CHILDREN.pop(self._places.state, None):
            child.wait(10)


def _is_open(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
