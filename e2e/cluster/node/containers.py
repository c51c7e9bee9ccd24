"""One container of an image in the cache, run by runc, without a cluster.

It is restricted as a pod of ours: the user of the image, no capabilities, no new privileges, a read-only root file
system with a writable /tmp and 64 MiB of /dev/shm. Its network is a loopback device and nothing else, so whatever it
asks of a hub fails. All that it consists of ends with the process that started it, however that ends. Of one that
was killed only empty control groups stay, until the next container is started.

Source: OCI runtime specification 1.0.2, `config.md` and `config-linux.md`; runc 1.1's `run`, which passes signals on.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from e2e.cluster.errors import ClusterError
from e2e.cluster.node import bases, cgroups
from e2e.cluster.node.trainings import Built

__all__ = ["Beside", "Container", "Volume", "Wanted"]

_PREFIX = "muster-run-"
_NAMES = (f"{_PREFIX}{os.getpid()}-{number}" for number in itertools.count(1))
_PATIENCE = 60.0
_TMPFS = ("nosuid", "nodev", "mode=1777")


@dataclass(frozen=True, slots=True)
class Volume:
    """A folder that a container sees.

    Attributes:
        source: here.
        target: there.
        writable: whether it may write to it; whose files these are decides as well.
    """

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """A folder of another image that a container sees, read-only: an image volume of Kubernetes or Docker.

    Attributes:
        image: that it is of.
        folder: in that image.
        target: in the container.
    """

    image: Built
    folder: str
    target: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a container is to be.

    Attributes:
        image: what it is made of.
        arguments: what takes the place of the image's own command.
        volumes: folders that it sees.
        besides: folders of other images that it sees.
        entry: whether the image's entry point comes before the arguments; a pod's `command` takes its place.
    """

    image: Built
    arguments: Sequence[str] = ()
    volumes: Sequence[Volume] = ()
    besides: Sequence[Beside] = ()
    entry: bool = True


class Container:
    """A container that runs until it ends by itself, or until `end`; use it with `with`.

    Args:
        wanted: what it is to be.
        folder: an empty folder of its own.

    Raises:
        ClusterError: it has no control group here.
    """

    def __init__(self, wanted: Wanted, folder: Path) -> None:
        self.name = next(_NAMES)
        places = [folder / f"beside-{number}" for number, _ in enumerate(wanted.besides)]
        pairs = list(zip(places, wanted.besides, strict=True))
        seen = [Volume(at / each.folder.strip("/"), each.target) for at, each in pairs]
        (folder / "config.json").write_text(json.dumps(_config(wanted, seen, self.name)))
        mounted = [_mounting(each.image, at) for at, each in pairs]
        script = "\n".join([*mounted, _running(wanted.image, folder, self.name)])
        _sweep()
        cgroups.create(self.name)
        self.process = subprocess.Popen(
            [*bases.ISOLATED, "sh", "-ec", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what is left of it."""
        self.process.kill()
        self.process.communicate()
        cgroups.remove(self.name)

    def line(self) -> str:
        """Return the next line of its output, without its end."""
        assert self.process.stdout is not None  # noqa: S101  # asked for above
        return self.process.stdout.readline().rstrip("\n")

    def output(self) -> str:
        """Return what else it writes until it ends."""
        assert self.process.stdout is not None  # noqa: S101  # asked for above
        return self.process.stdout.read()

    def entered(self) -> list[str]:
        """Prefix of a command of this machine that runs in the container's network."""
        return ["nsenter", f"--net=/proc/{self._first()}/ns/net", "--"]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to its first process, as a runtime that ends it does, and return its exit code."""
        os.kill(self._first(), number)
        return self.wait()

    def wait(self) -> int:
        """Return its exit code; what it still writes is lost.

        Raises:
            ClusterError: it does not end within a minute.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.communicate(timeout=_PATIENCE)
        if self.process.returncode is None:
            raise ClusterError(f"{self.name}: does not end within {_PATIENCE:.0f} s")
        return self.process.returncode

    def _first(self) -> int:
        """Return its first process: a child of runc's, which is the child of what isolates."""
        deadline = time.monotonic() + _PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError, StopIteration):
                return _child(_child(self.process.pid))
            time.sleep(0.02)
        raise ClusterError(f"{self.name}: has no process")


def _sweep() -> None:
    """Remove the control groups of containers whose process is gone."""
    for name in {group.name for hierarchy in cgroups.hierarchies() for group in hierarchy.glob(f"{_PREFIX}*")}:
        if not Path("/proc", name.removeprefix(_PREFIX).partition("-")[0]).exists():
            cgroups.remove(name)


def _running(image: Built, folder: Path, name: str) -> str:
    """Return a shell's text that runs an image; where volumes are mounted, runc makes folders in the upper layer."""
    over, states = (shlex.quote(str(folder / each)) for each in ("over", "states"))
    lines = [
        f"mkdir {over} {states}",
        f"mount -t tmpfs tmpfs {over}",
        f"mkdir {over}/upper {over}/work",
        _mounting(image, folder / "rootfs", f",upperdir={over}/upper,workdir={over}/work"),
        f"exec runc --root {states} run --bundle {shlex.quote(str(folder))} {name}",
    ]
    return "\n".join(lines)


def _mounting(image: Built, at: Path, more: str = "") -> str:
    """Return a shell's text that lays the layers of an image over one another.

    Layers have their names alone there, because the options of a mount are one page at most; and each has it once,
    because overlay refuses a folder that is named twice.
    """
    lower = ":".join(dict.fromkeys(layer.folder.name for layer in reversed(image.layers)))
    quoted, layers = shlex.quote(str(at)), shlex.quote(str(image.layers[0].folder.parent))
    return f"mkdir {quoted}\ncd {layers}\nmount -t overlay -o lowerdir={lower}{more} overlay {quoted}"


def _child(pid: int) -> int:
    threads = Path(f"/proc/{pid}/task").iterdir()  # a process is the child of one of them
    return int(next(each for thread in threads for each in (thread / "children").read_text().split()))


def _config(wanted: Wanted, seen: Sequence[Volume], name: str) -> Mapping[str, Any]:
    written = json.loads(wanted.image.config)["config"]
    entry = (written.get("Entrypoint") or []) if wanted.entry else []
    user, _, group = written["User"].partition(":")
    return {
        "ociVersion": "1.0.2",
        "hostname": name,
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "args": [*entry, *(wanted.arguments or written.get("Cmd") or ())],
            "env": written["Env"],
            "cwd": written.get("WorkingDir") or "/",
            "user": {"uid": int(user), "gid": int(group)},
            "capabilities": {},
            "noNewPrivileges": True,
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": [*_TMPFS, "size=64m"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": list(_TMPFS)},
            *map(_bound, [*wanted.volumes, *seen]),
        ],
        "linux": {
            "cgroupsPath": f"/{name}/container",
            "namespaces": [{"type": kind} for kind in ("pid", "network", "mount", "ipc", "uts")],
        },
    }


def _bound(volume: Volume) -> Mapping[str, Any]:
    options = ["rbind", "rw" if volume.writable else "ro"]
    return {"destination": volume.target, "type": "bind", "source": str(volume.source), "options": options}
