"""What `accelerate launch` starts (accelerate 1.15 `commands/launch.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["AccelerateWorld", "read_accelerate"]


@dataclass(frozen=True, slots=True)
class AccelerateWorld:
    """The processes of one `accelerate launch`; see `worlds.World`."""

    per_node: int | None = None
    nodes: int | None = None
    fault: str = ""
    unknown: str = ""


def read_accelerate(
    values: Mapping[str, str], nodes: int, devices: int | None, env: Mapping[str, str | None]
) -> AccelerateWorld:
    """Return what one node's launch starts."""
    del values, nodes, devices, env
    return AccelerateWorld(unknown="Muster cannot read this launch yet")
