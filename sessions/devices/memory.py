"""Who has memory on a device: a GPU of NVIDIA, or a budget of this machine's memory that a control group enforces.

A budget stands in for a GPU where there is none, and is as real: what an engine allocates while it has the device is
charged to a group with a limit, and stays charged after the engine left the group, until it is freed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

__all__ = ["Budget", "Device", "DeviceError", "Nvidia", "device"]


_CONTEXT = 1 << 30
_INTERPRETER = 48 << 20


class DeviceError(Exception):
    """A device that cannot be used, or not be measured; says what to do."""


class Device(Protocol):
    """Where one engine at a time has memory."""

    def open(self) -> None:
        """Begin to use it, when no other agent does. Raises `DeviceError` where that cannot be."""

    def enter(self, name: str, pid: int) -> None:
        """Have what a process allocates from now on be memory of the device. Raises `DeviceError`."""

    def leave(self, pid: int) -> None:
        """Have what a process allocates from now on be memory of the host; nothing happens when it is already."""

    def users(self, engines: Mapping[int, str]) -> frozenset[str]:
        """Return who has memory: engines by their names, others as `pid 7`. Raises `DeviceError`.

        Args:
            engines: names by process.
        """

    def forget(self, name: str) -> None:
        """Forget an engine that has died."""


class Nvidia:
    """A GPU, measured by `nvidia-smi`. Engines take its memory and give it back by CUDA; nothing enforces that here.

    Args:
        uuid: of the GPU, such as `GPU-5d5ba0d6-…`, or of a part of it.
        floor: bytes that an engine keeps while it is away, for its CUDA context.
        command: the program.
    """

    def __init__(self, uuid: str, floor: int = _CONTEXT, command: str = "nvidia-smi") -> None:
        self._uuid, self._floor, self._command = uuid, floor, command

    def open(self) -> None:
        """Look whether it can be measured."""
        self.users({})

    def enter(self, name: str, pid: int) -> None:
        """Do nothing: a process that computes there has memory there."""

    def leave(self, pid: int) -> None:
        """Do nothing: a process that computes there has memory there."""

    def users(self, engines: Mapping[int, str]) -> frozenset[str]:
        """Return who has more memory than an engine keeps while it is away; whose share is unknown has some."""
        query = [self._command, f"--id={self._uuid}", "--query-compute-apps=pid,used_memory"]
        try:
            told = subprocess.run(  # noqa: S603  # a program of the driver
                [*query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True, timeout=20
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise DeviceError(f"{self._uuid}: nvidia-smi cannot tell who has memory: {error}") from error
        return frozenset(
            _owner(pid, engines) for pid, size in _sizes(told.stdout) if size is None or size > self._floor
        )

    def forget(self, name: str) -> None:
        """Do nothing."""


class Budget:
    """A budget of memory, enforced by a control group of version 1 or 2; whoever needs more is ended by the kernel.

    Args:
        group: name of the control group, which is made.
        limit: bytes.
        floor: bytes that an engine keeps while it is away: what its interpreter does not give back.
        root: of the hierarchy that has the memory controller; None for that of this machine.

    Raises:
        DeviceError: where no memory is counted.
    """

    def __init__(self, group: str, limit: int, floor: int = _INTERPRETER, root: Path | None = None) -> None:
        self._root = root or _hierarchy()
        self._is_new = (self._root / "cgroup.controllers").exists()
        self._group, self._floor = self._root / group, floor
        self._homes: dict[int, Path] = {}
        self._limit = limit

    @property
    def parent(self) -> Path:
        """Where its group is, beside others."""
        return self._root

    def open(self) -> None:
        """Make the group. Raises `DeviceError` where this process may not."""
        try:
            self._make(self._limit)
        except OSError as error:
            told = "run as root, or in a control group that was delegated"
            raise DeviceError(f"{self._group}: cannot be made, or take a limit ({error.strerror}): {told}") from error

    def enter(self, name: str, pid: int) -> None:
        """Move a process into a group of its own, below that of the device."""
        try:
            self._homes.setdefault(pid, self._now(pid))
            (self._group / name).mkdir(exist_ok=True)
            (self._group / name / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise DeviceError(f"{self._group / name}: process {pid} cannot enter it: {error.strerror}") from error

    def leave(self, pid: int) -> None:
        """Move a process to where it came from; what it has stays charged to the device until it is freed."""
        with suppress(OSError):  # it has died
            if self._group in self._now(pid).parents:
                home = self._homes.get(pid, self._now(0))
                (home / "cgroup.procs").write_text(str(pid))
        self._homes.pop(pid, None)

    def users(self, engines: Mapping[int, str]) -> frozenset[str]:  # noqa: ARG002  # groups have the names of engines
        """Return whose group has more than an engine keeps while it is away."""
        return frozenset(each.name for each in self._groups() if self._charged(each) > self._floor)

    def forget(self, name: str) -> None:
        """Remove the group of an engine that has died; later where the kernel still has something in it."""
        with suppress(OSError):
            (self._group / name).rmdir()

    def remove(self) -> None:
        """Remove all groups that are empty."""
        for each in self._groups():
            self.forget(each.name)
        with suppress(OSError):
            self._group.rmdir()

    def _make(self, limit: int) -> None:
        self._group.mkdir(exist_ok=True)
        if self._is_new:
            (self._root / "cgroup.subtree_control").write_text("+memory")
            (self._group / "cgroup.subtree_control").write_text("+memory")
            (self._group / "memory.max").write_text(str(limit))
            (self._group / "memory.swap.max").write_text("0")
            return
        (self._group / "memory.limit_in_bytes").write_text(str(limit))
        with suppress(OSError):  # where the kernel counts no swap
            (self._group / "memory.memsw.limit_in_bytes").write_text(str(limit))

    def _groups(self) -> Iterator[Path]:
        yield from (each for each in self._group.iterdir() if each.is_dir())

    def _charged(self, group: Path) -> int:
        """Return the bytes of a group without its files: those belong to nobody, and the kernel drops them."""
        try:
            counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except OSError:
            return 0  # it was removed meanwhile
        return int(counts.get("anon", counts.get("total_rss", 0))) + int(counts.get("total_shmem", counts["shmem"]))

    def _now(self, pid: int) -> Path:
        """Return the group that a process is in; 0 for this one."""
        lines = Path(f"/proc/{pid or 'self'}/cgroup").read_text().splitlines()
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if controllers == "" if self._is_new else "memory" in controllers.split(","):
                return self._root / path.lstrip("/")
        return self._root


def device(text: str, kept: int | None = None) -> Device:
    """Return a device by its name. Raises `DeviceError`.

    Args:
        text: `nvidia:UUID`, or `budget:NAME:MEBIBYTES`.
        kept: bytes that an engine may keep there while it is away; None for what is usual.
    """
    kind, _, rest = text.partition(":")
    name, _, size = rest.rpartition(":")
    if kind == "nvidia" and rest:
        return Nvidia(rest, _CONTEXT if kept is None else kept)
    if kind == "budget" and name and "/" not in name and not name.startswith(".") and size.isdigit() and int(size):
        return Budget(f"muster-device-{name}", int(size) << 20, _INTERPRETER if kept is None else kept)
    raise DeviceError(f"--device: {text[:80]}: is not a device: pass nvidia:UUID or budget:NAME:MEBIBYTES")


def _hierarchy() -> Path:
    """Return where the memory controller is mounted."""
    new = None
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        place = Path(before.split(" ")[4])
        if kind == "cgroup" and "memory" in options.split()[-1].split(","):
            return place
        if kind == "cgroup2" and "memory" in (place / "cgroup.controllers").read_text().split():
            new = place
    if new is None:
        raise DeviceError("there is no control group for memory here: a budget cannot be enforced")
    return new


def _sizes(text: str) -> Iterator[tuple[int, int | None]]:
    """Yield the processes on a GPU with their bytes; None where the driver does not tell."""
    for line in text.splitlines():
        pid, _, size = (each.strip() for each in line.partition(","))
        if pid.isdigit():
            yield int(pid), int(size) << 20 if size.isdigit() else None


def _owner(pid: int, engines: Mapping[int, str]) -> str:
    """Return the engine that a process is, or belongs to."""
    at = pid
    while at > 1:
        if at in engines:
            return engines[at]
        try:
            at = int(Path(f"/proc/{at}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return f"pid {pid}"
