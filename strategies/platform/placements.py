"""Placements: where the platform lets the pods of a role run, and what placement needs to know of nodes.

A role separates pods that must not share a host: trainers hold optimizer states, samplers hold key-value caches, and
one evicts or starves the other. The platform says which nodes belong to a role; jobs only say which role they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from muster.strategies.documents import quantities

__all__ = ["KNOWN", "Node", "Role", "node"]

KNOWN = ("trainer", "sampler")
"""The values that the label `muster.dev/role` may hold."""


class Role(Struct, frozen=True):
    """One role, as the configuration file describes it.

    Attributes:
        name: one of `KNOWN`.
        node_labels: labels of its nodes, each with the values that a node may have. Empty for any node.
        tolerations: tolerations of the taints of its nodes (core/v1 Toleration).
        apart: whether its pods avoid hosts with pods of another role.
        spread: topology key over which the pods of one JobSet are spread, None for no spreading.
        profile: name of the claim profile of its pods, None where jobs or frameworks choose.
    """

    name: str
    node_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    apart: bool = False
    spread: str | None = None
    profile: str | None = None

    @property
    def others(self) -> tuple[str, ...]:
        """The other roles."""
        return tuple(word for word in KNOWN if word != self.name)

    @property
    def nodes(self) -> str:
        """The role's nodes in words, `nodes with pool=gpu`."""
        wanted = (f"{key}={'|'.join(values)}" for key, values in self.node_labels.items())
        return f"nodes with {', '.join(wanted)}" if self.node_labels else "all nodes"


class Node(Struct, frozen=True):
    """A node, as far as placement needs to know it.

    Attributes:
        taints: its taints (core/v1 Taint).
        memory: bytes that pods may ask for, None where the node does not say.
    """

    taints: Sequence[Mapping[str, Any]] = ()
    memory: int | None = None


def node(document: Mapping[str, Any]) -> Node:
    """Read a Node object (core/v1) that has the shape of its kind."""
    allocatable = (document.get("status") or {}).get("allocatable") or {}
    taints: Iterable[Mapping[str, Any]] = (document.get("spec") or {}).get("taints") or ()
    memory = quantities.count(allocatable.get("memory"))
    return Node(tuple(taints), memory or None)
