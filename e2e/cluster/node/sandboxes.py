"""A sandbox: its own namespaces that hold a whole cluster, and that end with one process.

Processes, mounts, network devices, bridge, nft tables and the pods' own namespaces all live in namespaces whose first
process is `inits.py`. When that process dies, for whatever reason, the kernel removes them all; there is no list of
things to undo that a crash could leave half written. Only the control groups, whose name follows from the state
folder, and the state folder itself remain outside.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from e2e.cluster import builds, commands, processes
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import cgroups, networks
from e2e.cluster.places import Places, cache

__all__ = ["HOSTNAME", "Sandbox", "create", "destroy", "find", "identity"]

HOSTNAME = "node-0"
"""The host name inside, which is the name of the real node."""

_COMPONENT = "sandbox"
_NAMESPACES = ("--pid", "--mount", "--net", "--uts", "--ipc")
_PATIENCE = 60.0

# The kubelet requires these values and would set them for the whole machine; here it reads a file of this package.
_TUNABLES = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
# The folders that the container runtime, its network plugins and the kubelet always write to.
_WRITTEN = ("/var/lib", "/var/log")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A running sandbox: its state folder, the process id of its first process on the host, and its network."""

    places: Places
    init: int
    network: networks.Network

    def prefix(self) -> list[str]:
        """The prefix that runs a command inside."""
        return ["nsenter", "--target", str(self.init), *_NAMESPACES, "--"]

    def run(self, *command: str | Path, stdin: str = "") -> str:
        """Run a command inside and return its output.

        Raises:
            ClusterError: the command failed; the message contains its output.
        """
        return commands.run([*self.prefix(), *map(str, command)], stdin=stdin)

    def own(self, folder: str) -> None:
        """Keep what is written to `folder` inside in the state folder, unless that lies on an overlay itself.

        On an overlay the container runtime could not lay its own over it; then memory takes its place.
        """
        kept = self.places.state / "node" / Path(folder).name
        kept.mkdir(parents=True, exist_ok=True)
        self.run("mkdir", "-p", folder)
        kind = commands.run(["stat", "--file-system", "--format=%T", str(kept)]).strip()
        mount = ["-t", "tmpfs", "tmpfs"] if kind == "overlayfs" else ["--bind", str(kept)]
        self.run("mount", *mount, folder)

    @property
    def address(self) -> str:
        """The node's address, which the host reaches too."""
        return str(self.network.node)

    @property
    def pod_cidr(self) -> str:
        """The pods of the real node."""
        return str(self.network.pods)

    @property
    def service_cidr(self) -> str:
        """The ClusterIPs."""
        return str(self.network.services)

    @property
    def fake_cidr(self) -> str:
        """The pods of KWOK's nodes."""
        return str(self.network.fakes)

    @property
    def dns_address(self) -> str:
        """The DNS server of the pods."""
        return str(self.network.node)


def identity(places: Places) -> str:
    """The name of what a cluster has outside of its state folder: `muster-` and eight digits made from its path."""
    return f"muster-{hashlib.sha256(os.fsencode(places.state)).hexdigest()[:8]}"


def create(places: Places) -> Sandbox:
    """Make the sandbox of a cluster, with a link to the host.

    Raises:
        ClusterError: the sandbox exists, or the machine does not allow it.
    """
    if processes.running(places, _COMPONENT):
        raise ClusterError(f"{places.state}: this cluster has a sandbox; take it down first")
    _disconnect(places)
    cgroups.create(identity(places))
    init = _first_process(places)
    # Until the link is up nothing shows which network was chosen, so only one sandbox chooses at a time.
    with builds.locked(cache() / "networks"):
        sandbox = Sandbox(places, init, networks.choose())
        _connect(sandbox)
    (places.state / "network.json").write_text(json.dumps({"block": str(sandbox.network.block)}))
    _shield(sandbox)
    return sandbox


def find(places: Places) -> Sandbox | None:
    """The sandbox of a cluster that is up; None when there is none."""
    try:
        block = json.loads((places.state / "network.json").read_text())["block"]
        return Sandbox(places, _inner(places), networks.Network(IPv4Network(block)))
    except (FileNotFoundError, ClusterError):
        return None


def destroy(places: Places) -> None:
    """End the sandbox and everything in it, and remove what it had outside; do nothing when there is none.

    Raises:
        ClusterError: something does not end within a minute; the message says what.
    """
    processes.end(places, _COMPONENT, kill=True)
    cgroups.remove(identity(places))
    _disconnect(places)
    (places.state / "network.json").unlink(missing_ok=True)


def _first_process(places: Places) -> int:
    program = Path(__file__).with_name("inits.py")
    unshared = ["unshare", "--fork", "--kill-child", "--mount-proc", *_NAMESPACES]
    started = processes.start(places, _COMPONENT, [*unshared, sys.executable, "-I", "-S", program])
    deadline = time.monotonic() + _PATIENCE
    while started.poll() is None and time.monotonic() < deadline:
        try:
            return _inner(places)
        except ClusterError:
            time.sleep(0.02)
    raise ClusterError(f"this machine does not allow new namespaces:\n{places.log(_COMPONENT).read_text()[-1000:]}")


def _inner(places: Places) -> int:
    """The first process: of those with the sandbox's marks, the one that runs `inits.py` in other namespaces."""
    ours = Path("/proc/self/ns/pid").readlink()
    for pid in processes.running(places, _COMPONENT):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if (
                command[-2].endswith(b"inits.py")
                and command[0] != b"unshare"
                and ours != Path(f"/proc/{pid}/ns/pid").readlink()
            ):
                return pid
        except (OSError, IndexError):
            continue
    raise ClusterError(f"{places.state}: this cluster has no sandbox")


def _link(places: Places) -> str:
    return identity(places).replace("muster-", "muster")


def _connect(sandbox: Sandbox) -> None:
    """A virtual cable to the host; traffic to ClusterIPs needs a route before kube-proxy's rules see it."""
    link, network = _link(sandbox.places), sandbox.network
    commands.run(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(sandbox.init)])
    commands.run(["ip", "address", "add", f"{network.host}/30", "dev", link])
    commands.run(["ip", "link", "set", link, "up"])
    inside = (
        "link set lo up",
        f"address add {network.node}/30 dev eth0",
        "link set eth0 up",
        f"route add {network.services} via {network.host} src {network.node}",
    )
    sandbox.run("ip", "-batch", "-", stdin="\n".join(inside))


def _disconnect(places: Places) -> None:
    """Remove the cable: closing connections keep a namespace and its devices for minutes."""
    link = _link(places)
    if (Path("/sys/class/net") / link).exists():
        # The kernel may remove it at this moment.
        with contextlib.suppress(ClusterError):
            commands.run(["ip", "link", "delete", link])


def _shield(sandbox: Sandbox) -> None:
    """Host name, and mounts that keep what runs inside from writing to the machine's own folders and settings."""
    state, resolver = sandbox.places.state, Path("/etc/resolv.conf").resolve()
    lines = ["set -e", f"hostname {HOSTNAME}", "echo 1 > /proc/sys/net/ipv4/ip_forward"]
    lines += ["echo 1 > /proc/sys/net/ipv4/tcp_orphan_retries"]
    lines += [f"resolver=$(cat {resolver} || true)", *_covered("/run", "mount -t tmpfs -o mode=755 tmpfs /run", state)]
    lines += [f'[ -e {resolver} ] || {{ mkdir -p {resolver.parent}; echo "$resolver" > {resolver}; }}']
    for name, value in _TUNABLES.items():
        file = f"/run/tunables/{name}"
        lines += [f"mkdir -p {Path(file).parent}", f"echo {value} > {file}", f"mount --bind {file} /proc/sys/{name}"]
    for folder in _WRITTEN:
        layers = f"/run/layers{folder}"
        options = f"lowerdir={folder},upperdir={layers}/upper,workdir={layers}/work"
        lines += [f"mkdir -p {layers}/upper {layers}/work"]
        lines += _covered(folder, f"mount -t overlay -o {options} overlay {folder}", state)
    sandbox.run("sh", stdin="\n".join(lines))


def _covered(folder: str, mount: str, state: Path) -> list[str]:
    if not state.is_relative_to(folder):
        return [mount]
    # A state folder inside is held by a file descriptor while the other content is put over its parent.
    return [f"exec 9< {state}", mount, f"mkdir -p {state}", f"mount --rbind /proc/self/fd/9/. {state}", "exec 9<&-"]
