"""The versions of what was measured, as they were built."""

from __future__ import annotations

from collections.abc import Iterable

from bench.peers import controllers
from bench.peers.shapes import Peer
from e2e.cluster import builds, toolchains
from e2e.cluster import commands as programs

__all__ = ["of"]


def of(peers: Iterable[Peer]) -> dict[str, str]:
    """Return versions by name: of the cluster, of each peer, and of what runs them."""
    found = {
        "Kubernetes": builds.version("kubernetes", "k8s.io/kubernetes"),
        "JobSet": builds.version("kubernetes", "sigs.k8s.io/jobset"),
    }
    for peer in peers:
        found |= peer.versions()
    found["Go"] = programs.run([toolchains.find(), "env", "GOVERSION"], folder=controllers.MODULE.folder).strip()
    return found
