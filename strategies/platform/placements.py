"""Placements: where the pods of a role run, as the platform says, and the nodes that there are.

A role separates what must not share a host: trainers hold optimizer states, samplers hold key-value caches, and one of
the two evicts or starves the other. The platform says which nodes belong to a role; jobs only say which role they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strategies.documents import quantities

__all__ = ["KNOWN", "Node", "Role", "node"]

KNOWN = ("trainer", "sampler")
"""The words that the label `muster.dev/role` may hold."""


@dataclass(frozen=True, slots=True)
class Role:
    """One role, as the configuration file describes it.

    Attributes:
        name: one of `KNOWN`.
        node_labels: what the labels of its nodes are; of several values a node has one. Empty for any node.
        tolerations: of the taints of its nodes (core/v1 Toleration).
        apart: whether its pods keep off hosts with pods of another role.
        spread: topology key over which the pods of one JobSet are spread, None for wherever they fit.
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
        """Its nodes in words, `nodes with pool=gpu`."""
        wanted = (f"{key}={'|'.join(values)}" for key, values in self.node_labels.items())
        return f"nodes with {', '.join(wanted)}" if self.node_labels else "all nodes"


@dataclass(frozen=True, slots=True)
class Node:
    """What placement needs to know of a node.

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
