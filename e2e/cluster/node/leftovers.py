"""What a cluster can leave on a machine, listed before it comes up and after it went down, and compared.

The lists are of the whole machine, not of what clusters are known to make: a trace that nobody thought of counts too.
`python -m e2e.cluster.node.drills` uses it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from e2e.cluster import commands, processes
from e2e.cluster.node import cgroups, sandboxes
from e2e.cluster.places import Places

__all__ = ["Traces", "added", "look", "owners", "words_about"]

_MARK = f"{processes.OWNER}="
# Settings of the whole machine that kubelets and kube-proxies are known to change.
_SETTINGS = (
    *("vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops"),
    *("kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes", "net.ipv4.ip_forward", "net.netfilter.nf_conntrack_max"),
)
_FOLDERS = (
    "/etc/cdi",
    "/run/cdi",
    "/etc/cni",
    "/opt/cni",
    "/opt/containerd",
    "/run/containerd",
    "/run/netns",
    "/run/runc",
    "/run/cni",
)
_MORE_FOLDERS = ("/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods", "/var/log/containers")


@dataclass(frozen=True, slots=True)
class Traces:
    """What there is on the machine, each kind as a set of words for people."""

    processes: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    routes: frozenset[str]
    tables: frozenset[str]
    groups: frozenset[str]
    settings: frozenset[str]
    folders: frozenset[str]


def look() -> Traces:
    """List the machine's traces."""
    return Traces(
        processes=frozenset(_processes()),
        mounts=frozenset(line.split(" ", 2)[2] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        links=frozenset(str(each["ifname"]) for each in _ip("link", "show")),
        routes=frozenset(f"{each['dst']} dev {each.get('dev')}" for each in _ip("route", "show", "table", "all")),
        tables=frozenset(_tables()),
        groups=frozenset(str(each) for top in cgroups.hierarchies() for each in top.glob("muster-*")),
        settings=frozenset(f"{name} = {_setting(name)}" for name in _SETTINGS),
        folders=frozenset(each for each in (*_FOLDERS, *_MORE_FOLDERS) if Path(each).exists()),
    )


def added(before: Traces, after: Traces) -> list[str]:
    """What is there after that was not there before, as lines such as `mounts: ...`."""
    return [
        f"{kind.name}: {trace}"
        for kind in fields(Traces)
        for trace in sorted(getattr(after, kind.name) - getattr(before, kind.name))
    ]


def words_about(state: Path) -> list[str]:
    """Words by which a line of `added` is known to be about the cluster of this state folder."""
    name = sandboxes.identity(Places(state))
    return [f"{_MARK}{state} ", name, name.replace("-", "")]


def owners() -> set[Path]:
    """The state folders of all clusters that run on this machine."""
    marks = (_mark(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {Path(mark.removeprefix(_MARK)) for mark in marks if mark}


def _processes() -> Iterator[str]:
    """Those of clusters, by their mark, and those in other namespaces, such as pods, which carry none."""
    ours = Path("/proc/self/ns/pid").readlink()
    for entry in Path("/proc").iterdir():
        try:
            mark, inside = _mark(entry), (entry / "ns/pid").readlink() != ours
            if mark or inside:
                command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
                group = (entry / "cgroup").read_text().splitlines()[0]
                yield f"{entry.name} {mark} {command[:200]} {group}"
        except OSError:
            continue


def _mark(process: Path) -> str:
    try:
        variables = (process / "environ").read_text(errors="replace").split("\0")
    except OSError:
        return ""
    return next((each for each in variables if each.startswith(_MARK)), "")


def _ip(*arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(commands.run(["ip", "-json", *arguments]) or "[]")
    return found


def _tables() -> list[str]:
    """None where there is no `nft`: the unit tests run before the packages are installed."""
    return commands.run(["nft", "list", "tables"]).splitlines() if shutil.which("nft") else []


def _setting(name: str) -> str:
    path = Path("/proc/sys") / name.replace(".", "/")
    return path.read_text().strip() if path.exists() else "none"
