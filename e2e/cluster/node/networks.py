"""Chooses the addresses of a sandbox, so that clusters run side by side and the host's networks stay reachable.

A cluster takes one /16 that no route and no address of this machine touches, and every range inside it has a fixed
place. Clusters that run show themselves by the route to their sandbox, so nothing has to be noted anywhere.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from e2e.cluster import commands
from e2e.cluster.errors import ClusterError

__all__ = ["Network", "choose", "taken"]

_BLOCKS = [IPv4Network(f"10.{second}.0.0/16") for second in range(64, 250)]
"""From the middle of 10/8: what clouds and virtual private networks hand out lies mostly at its start."""


@dataclass(frozen=True, slots=True)
class Network:
    """The ranges of one cluster, all inside `block`, a /16."""

    block: IPv4Network

    @property
    def pods(self) -> IPv4Network:
        """A /24 for the pods of the real node."""
        return self._part(0, 24)

    @property
    def gateway(self) -> IPv4Address:
        """The bridge of the pods."""
        return self.pods[1]

    @property
    def host(self) -> IPv4Address:
        """The host's end of the link to the sandbox."""
        return self._part(256, 30)[1]

    @property
    def node(self) -> IPv4Address:
        """The sandbox's end of the link: the node, its API server, its DNS server."""
        return self._part(256, 30)[2]

    @property
    def services(self) -> IPv4Network:
        """A /20 for ClusterIPs."""
        return self._part(4096, 20)

    @property
    def fakes(self) -> IPv4Network:
        """A /17 for the pods of KWOK's nodes, which nothing can reach."""
        return self._part(32768, 17)

    def _part(self, offset: int, length: int) -> IPv4Network:
        return IPv4Network((self.block[offset], length))


def choose(used: Iterable[IPv4Network] | None = None) -> Network:
    """A network that overlaps none of `used`, by default the networks that this machine knows.

    Raises:
        ClusterError: every candidate is in use.
    """
    known = list(taken() if used is None else used)
    for block in random.sample(_BLOCKS, len(_BLOCKS)):
        if not any(block.overlaps(each) for each in known):
            return Network(block)
    first, last = _BLOCKS[0], _BLOCKS[-1]
    raise ClusterError(f"no free /16 between {first} and {last}: this machine has routes into all of them (ip route)")


def taken() -> Iterator[IPv4Network]:
    """Every IPv4 network that this machine has a route to or an address in; default routes are left out."""
    for route in _ip("route", "show", "table", "all"):
        if route.get("dst", "default") != "default":
            yield IPv4Network(str(route["dst"]), strict=False)
    for link in _ip("address", "show"):
        for address in link.get("addr_info", ()):
            yield IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False)


def _ip(*arguments: str) -> list[dict[str, Any]]:  # Any: iproute2's JSON
    found: list[dict[str, Any]] = json.loads(commands.run(["ip", "-4", "-json", *arguments]) or "[]")
    return found
