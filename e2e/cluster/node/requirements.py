"""What the node tier needs of a machine: tried before anything is started, and reported when it is missing.

Each capability is tried in namespaces that vanish at once. A version or a configuration would prove less, because
containers, sandboxes and hardened kernels refuse in many ways.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster import packages
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import cgroups

__all__ = ["missing"]

_TOOLS = ("unshare", "nsenter", "setpriv", "mount", "ip", "tar", "hostname")
_TRIALS = {
    "pid, mount, network, UTS and IPC namespaces": "true",
    "network devices (veth, bridge)": "ip link add trial0 type veth peer name trial1 && ip link add trial2 type bridge",
    "nftables in the kernel": "nft add table ip trial",
    "overlayfs": "mount -t tmpfs t /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m"
    " && mount -t overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w o /mnt/m",
}
"""For each capability a shell command that needs it, run in new namespaces."""


def missing() -> list[str]:
    """What this machine lacks for the node tier, for people; empty when the tier can run."""
    if os.geteuid() != 0:
        return ["root"]
    return [*_commands(), *_capabilities(), *_groups()]


def _commands() -> Iterator[str]:
    yield from (f"the command {tool}" for tool in _TOOLS if shutil.which(tool) is None)
    # They can be installed where apt-get works.
    if packages.missing() and shutil.which("apt-get") is None:
        yield from (f"the package {package}" for package in packages.missing())


def _capabilities() -> Iterator[str]:
    namespaces = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--net", "--uts", "--ipc"]
    for words, trial in _TRIALS.items():
        if trial.startswith("nft") and shutil.which("nft") is None:
            continue
        try:
            ended = subprocess.run([*namespaces, "sh", "-ec", trial], capture_output=True, check=False, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            yield words
            continue
        if ended.returncode != 0:
            yield words


def _groups() -> Iterator[str]:
    name = f"muster-trial-{os.getpid()}"
    if not cgroups.hierarchies():
        yield "mounted control groups"
        return
    try:
        cgroups.create(name)
    except ClusterError as error:
        yield f"writable control groups ({error})"
    finally:
        with contextlib.suppress(ClusterError):
            cgroups.remove(name)
    if not Path("/proc/sys/net/ipv4").is_dir():
        yield "IPv4"
