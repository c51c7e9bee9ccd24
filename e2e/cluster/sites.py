"""Where a cluster's processes run: on this machine's loopback, or inside the sandbox of the node tier.

The components are the same in both tiers; a site gives them their address, their ports, their ranges of pod and
service addresses, and the command that steps into the sandbox.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal

from e2e.cluster.errors import ClusterError
from e2e.cluster.places import Places

__all__ = ["Ports", "Site", "Tier", "load"]

Tier = Literal["control-plane", "node"]


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP ports of the site's address."""

    api: int
    etcd: int
    etcd_peer: int
    controller_manager: int
    scheduler: int
    jobset: int
    trainer: int
    trainer_health: int
    muster: int
    jobset_health: int
    kubelet: int
    kubelet_health: int


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster's surroundings; kept as JSON in the state folder.

    Attributes:
        prefix: what a command is prefixed with to run inside; empty on loopback.
        services: CIDR of Services' addresses; the first is the API server's.
        pods: CIDR of pods' addresses.
        dns: address of the cluster DNS; empty without nodes.
    """

    tier: Tier
    address: str
    ports: Ports
    prefix: tuple[str, ...] = ()
    services: str = "10.96.0.0/16"
    pods: str = "10.244.0.0/16"
    dns: str = ""

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://{self.address}:{self.ports.api}"

    @property
    def etcd(self) -> str:
        """The URL of etcd."""
        return f"http://{self.address}:{self.ports.etcd}"

    def save(self, places: Places) -> None:
        """Write it to the state folder."""
        places.description.write_text(json.dumps(dataclasses.asdict(self), indent=1))


def load(places: Places) -> Site:
    """Read the site of a cluster that was brought up.

    Raises:
        ClusterError: there is no cluster in this state folder.
    """
    try:
        document = json.loads(places.description.read_text())
    except FileNotFoundError:
        raise ClusterError(f"{places.state}: holds no cluster; `python -m e2e.cluster up` makes one") from None
    ports = Ports(**document.pop("ports"))
    return Site(ports=ports, prefix=tuple(document.pop("prefix")), **document)
