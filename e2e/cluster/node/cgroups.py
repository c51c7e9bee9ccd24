"""The control groups of a cluster: one folder per hierarchy, below which the kubelet keeps those of its pods.

Only they outlive the sandbox's processes, so their name depends on the state folder alone: `down` finds them even when
a crash kept them from being recorded. Version 1 and version 2 both work; on version 1 every controller has its own
hierarchy.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.errors import ClusterError

__all__ = ["create", "hierarchies", "remaining", "remove"]

_PATIENCE = 60.0


def hierarchies() -> list[Path]:
    """The mount points of the control group hierarchies, version 1 or 2."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ", 1)[0] in ("cgroup", "cgroup2"):
            found.append(Path(before.split(" ")[4]))
    return found


def create(name: str) -> None:
    """Make the group in every hierarchy; on version 2 with every controller that may be delegated.

    Raises:
        ClusterError: this process may not do that, or the hierarchies are mounted read-only.
    """
    for hierarchy in hierarchies():
        group = hierarchy / name
        try:
            group.mkdir(exist_ok=True)
            _prepare(hierarchy, group)
        except OSError as error:
            raise ClusterError(f"{group}: cannot make the cluster's control group: {error.strerror}") from None


def remove(name: str) -> None:
    """Remove the group and all below it from every hierarchy; the processes in it have ended or are ending.

    Raises:
        ClusterError: a process in it still runs after a minute.
    """
    deadline = time.monotonic() + _PATIENCE
    while groups := list(remaining(name)):
        for group in groups:
            with contextlib.suppress(OSError):
                group.rmdir()
        if time.monotonic() > deadline:
            raise ClusterError(f"these control groups cannot be removed, since processes run in them: {groups[:5]}")
        time.sleep(0.05)


def remaining(name: str) -> Iterator[Path]:
    """The folders that exist for the group, the deepest first."""
    for hierarchy in hierarchies():
        top = hierarchy / name
        if top.is_dir():
            yield from sorted((each for each in top.rglob("*") if each.is_dir()), reverse=True)
            yield top


def _prepare(hierarchy: Path, group: Path) -> None:
    """Set what a new group lacks: version 1 starts with an empty CPU set, version 2 delegates no controller."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (group / file).exists() and not (hierarchy / "cgroup.controllers").exists():
            (group / file).write_text((hierarchy / file).read_text())
    if (hierarchy / "cgroup.controllers").exists():
        for controller in (hierarchy / "cgroup.controllers").read_text().split():
            (hierarchy / "cgroup.subtree_control").write_text(f"+{controller}")
            (group / "cgroup.subtree_control").write_text(f"+{controller}")
