"""Drills: what `down` must be able to clean up, tested for real. They take minutes, and need the node tier.

`up` is killed by SIGKILL at several moments of its course; after `down` the machine must be as it was. Then two
clusters run at the same time, and each must have its own node and nothing of the other's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import bringups, commands, node, places, processes
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import leftovers

__all__ = ["crash", "main", "side_by_side"]

_MOMENTS = (0.5, 2.0, 3.0, 5.0, 9.0, 15.0, 22.0, 30.0)
"""Seconds from the start of `up`: images, sandbox, container runtime, control plane, node, workloads."""


def main() -> None:
    """Run all drills; exit with 1 and the traces when something is left."""
    if lacks := node.missing():
        sys.exit(f"the node tier cannot run on this machine; it needs: {'; '.join(lacks)}")
    with tempfile.TemporaryDirectory(prefix="muster-drill-") as folder:
        failed = [line for moment in _MOMENTS for line in crash(Path(folder) / "crashed", moment)]
        failed += side_by_side([Path(folder) / "left", Path(folder) / "right"])
    sys.exit("\n".join(failed) if failed else 0)


def crash(state: Path, seconds: float) -> list[str]:
    """Kill `up` after some seconds, take the cluster down, and return what is left on the machine."""
    before = leftovers.look()
    command = [sys.executable, "-m", "e2e.cluster", "up", "--tier", "node", "--state", str(state)]
    up = subprocess.Popen(command, cwd=places.REPOSITORY, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(seconds)
    up.send_signal(signal.SIGKILL)
    up.wait()
    where = places.Places(state.resolve())
    reached = sorted(set(processes.running(where).values()))
    bringups.down(where)
    left = [f"killed after {seconds} s, left {line}" for line in _settled(before, [where.state])]
    commands.say(f"killed after {seconds} s with {len(reached)} components running: {len(left)} traces left")
    return left + [f"killed after {seconds} s, left {state}"] * state.exists()


def side_by_side(states: Sequence[Path]) -> list[str]:
    """Bring up one cluster in each folder at the same time, and take them down; return what went wrong."""
    before, failed = leftovers.look(), []
    command = [sys.executable, "-m", "e2e.cluster", "up", "--tier", "node", "--state"]
    started = [subprocess.Popen([*command, str(state)], cwd=places.REPOSITORY) for state in states]
    failed += [f"{state}: up ended with {up.wait()}" for state, up in zip(states, started, strict=True) if up.wait()]
    for state in states:
        try:
            nodes = commands.run(["sh", "-c", f". {state}/env; $MUSTER_E2E_KUBECTL --kubeconfig $KUBECONFIG get nodes"])
            failed += [f"{state}: no real node:\n{nodes}"] * ("node-0   Ready" not in nodes)
        except ClusterError as error:
            failed.append(f"{state}: {error}")
    for state in states:
        bringups.down(places.Places(state.resolve()))
    return failed + [f"two clusters left {line}" for line in _settled(before, states)]


def _settled(before: leftovers.Traces, states: Sequence[Path]) -> list[str]:
    """What is left after the kernel has had a moment to remove namespaces, without traces of other clusters."""
    deadline = time.monotonic() + 5
    while True:
        others = [word for owner in leftovers.owners().difference(states) for word in leftovers.words_about(owner)]
        added = leftovers.added(before, leftovers.look())
        left = [line for line in added if not any(word in line for word in others)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


if __name__ == "__main__":
    os.chdir(places.REPOSITORY)
    main()
