"""All peers, in the order of the tables."""

from __future__ import annotations

from collections.abc import Iterable

from bench.peers import changes, controllers, gatekeepers, kyvernos, muster, operators, policies
from bench.peers.shapes import Peer
from e2e.cluster import builds
from e2e.cluster.errors import ClusterError

__all__ = ["NONE", "PEERS", "chosen", "modules"]

NONE = Peer(name="none", title="no webhook", lacks=changes.PARTS)
"""What all others are compared with."""

PEERS: tuple[Peer, ...] = (
    NONE,
    policies.NATIVE,
    policies.NATIVE_BOTH,
    controllers.TYPED,
    controllers.PATCHES,
    controllers.PATCHES_BOTH,
    kyvernos.MUTATING,
    kyvernos.BOTH,
    kyvernos.CLUSTER,
    gatekeepers.ASSIGN,
    gatekeepers.ASSIGN_CONSTRAINT,
    operators.KOPF,
    *muster.ALL,
)
"""All that there are."""


def chosen(names: Iterable[str]) -> list[Peer]:
    """Return the peers of these names, all if there is none; the row without a webhook is always among them.

    Raises:
        ClusterError: a name is none of ours.
    """
    wanted = set(names) or {peer.name for peer in PEERS}
    if unknown := wanted - {peer.name for peer in PEERS}:
        known = ", ".join(peer.name for peer in PEERS)
        raise ClusterError(f"--peers: {', '.join(sorted(unknown))}: is not a peer; there are {known}")
    return [peer for peer in PEERS if peer.name in wanted | {NONE.name}]


def modules(peers: Iterable[Peer]) -> list[builds.Module]:
    """Return the Go modules that these peers are built from, and that of the load generator."""
    return list(dict.fromkeys([controllers.MODULE, *(module for peer in peers for module in peer.modules())]))
