"""Starts and ends the cluster's processes, so that none is left behind and no process of another cluster is touched.

Every process carries two marks in its environment: the state folder that owns it and the component that it is. The
running processes are read from `/proc`, never from a recorded list, so that a crash after a start cannot lose one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError
from e2e.cluster.places import Places

__all__ = ["OWNER", "Component", "again", "end", "end_all", "running", "start", "wait"]

OWNER = "MUSTER_CLUSTER_OWNER"
_COMPONENT = "MUSTER_CLUSTER_COMPONENT"
_PATIENCE = 30.0
_READY = 60.0


@dataclass(frozen=True, slots=True)
class Component:
    """How a component is started: kept in the state folder, so that it can be started again.

    Attributes:
        listens: address and TCP port on which it takes connections once it is ready.
    """

    name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    listens: tuple[str, int] | None = None

    def save(self, places: Places) -> None:
        """Write it to the state folder."""
        folder = places.state / "components"
        folder.mkdir(exist_ok=True)
        document = {"command": self.command, "environment": dict(self.environment), "listens": self.listens}
        (folder / f"{self.name}.json").write_text(json.dumps(document, indent=1))

    @classmethod
    def load(cls, places: Places, name: str) -> Component:
        """Read it back.

        Raises:
            ClusterError: this cluster does not have this component.
        """
        path = places.state / "components" / f"{name}.json"
        try:
            document = json.loads(path.read_text())
        except FileNotFoundError:
            known = ", ".join(sorted(file.stem for file in path.parent.glob("*.json"))) or "none"
            raise ClusterError(f"{name}: is not a component of this cluster; it has {known}") from None
        listens = tuple(document["listens"]) if document.get("listens") else None
        return cls(name, tuple(document["command"]), tuple(document["environment"].items()), listens)


def start(
    places: Places,
    name: str,
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    *,
    listens: tuple[str, int] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a component in a session of its own, without waiting for it; its output is appended to its log."""
    component = Component(name, tuple(map(str, command)), tuple((environment or {}).items()), listens)
    component.save(places)
    return _spawn(places, component)


def again(places: Places, name: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes] | None:
    """Start a component as before, with further variables for this start only, and wait until it is ready.

    When it already runs, nothing is started and None is returned.
    """
    process = None
    if not running(places, name):
        component = Component.load(places, name)
        more = (*component.environment, *(environment or {}).items())
        process = _spawn(places, dataclasses.replace(component, environment=more))
    wait(places, name, process)
    return process


def wait(places: Places, name: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until a component accepts connections; `process` is the process just started, if known.

    Raises:
        ClusterError: it ended, or does not accept connections within a minute.
    """
    listens = Component.load(places, name).listens
    deadline = time.monotonic() + _READY
    while listens is not None:
        if not _lives(places, name, process):
            raise ClusterError(f"{name} ended at its start; see {places.log(name)}")
        if _connects(listens):
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"{name} accepts no connections after {_READY:.0f} s; see {places.log(name)}")
        time.sleep(0.05)


def running(places: Places, name: str | None = None) -> dict[int, str]:
    """The processes of this cluster, or of one component: process id to component's name."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        marks = _marks(entry)
        if marks.get(OWNER) == str(places.state) and name in (None, marks.get(_COMPONENT)):
            found[int(entry.name)] = marks.get(_COMPONENT, "?")
    return found


def end(places: Places, name: str, *, kill: bool = False) -> None:
    """End a component's processes: by SIGTERM with half a minute of patience, then, or at once, by SIGKILL."""
    _end(places, name, kill)


def end_all(places: Places) -> None:
    """Kill all processes of this cluster, whose files are about to be removed."""
    _end(places, None, kill=True)


def _end(places: Places, name: str | None, kill: bool) -> None:
    if not kill and _signalled(places, name, signal.SIGTERM, _PATIENCE):
        return
    # A process may start another between the look and the signal; so look again until there is none.
    for _ in range(20):
        if _signalled(places, name, signal.SIGKILL, 1.0) and not running(places, name):
            return
    left = ", ".join(f"{each} ({pid})" for pid, each in running(places, name).items())
    raise ClusterError(f"these processes do not end even by SIGKILL: {left}")


def _signalled(places: Places, name: str | None, number: signal.Signals, patience: float) -> bool:
    """Signal the running processes and wait for their end; return whether they ended."""
    processes = running(places, name)
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    deadline = time.monotonic() + patience
    # By number: a process that is ending loses its marks before it closes its sockets.
    while any(_exists(pid) for pid in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _exists(pid: int) -> bool:
    process = Path(f"/proc/{pid}")
    try:
        # The first thread of a killed process may be a zombie while others still hold its sockets.
        return "\nState:\tZ" not in (process / "status").read_text() or len(list((process / "task").iterdir())) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def _lives(places: Places, name: str, process: subprocess.Popen[bytes] | None) -> bool:
    if process is not None:
        return process.poll() is None
    # The marks of a process cannot be read for a moment while it executes its program.
    for _ in range(5):
        if running(places, name):
            return True
        time.sleep(0.05)
    return False


def _connects(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(address) == 0


def _spawn(places: Places, component: Component) -> subprocess.Popen[bytes]:
    marks = {OWNER: str(places.state), _COMPONENT: component.name}
    environment = {**os.environ, **dict(component.environment), **marks}
    with places.log(component.name).open("ab") as log:
        process = subprocess.Popen(
            component.command,
            env=environment,
            cwd=places.state,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # Linux reports that the program is executed a moment before its environment can be read.
    while process.poll() is None and not _marks(Path(f"/proc/{process.pid}")):
        time.sleep(0.001)
    return process


def _marks(process: Path) -> dict[str, str]:
    try:
        block = (process / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    entries = (each.partition("=") for each in block.decode(errors="replace").split("\0"))
    return {key: value for key, _, value in entries if key in (OWNER, _COMPONENT)}
