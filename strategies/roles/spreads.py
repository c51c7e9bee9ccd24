"""Spreads: the pods of a role in one JobSet go to different hosts or zones, as far as there is room.

Softly: a pod that finds no room where the count is lowest runs elsewhere, for pods that share a device must share its
node as well. `matchLabelKeys` counts the pods of the same JobSet without naming it, since a generated name is not known
yet (core/v1 TopologySpreadConstraint, on by default since Kubernetes 1.27).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strategies.changes.changes import Changes
from strategies.documents import names
from strategies.documents.paths import Absent, Path
from strategies.platform.placements import Role

__all__ = ["add"]


def add(changes: Changes, pod_path: Path, role: Role, because: str) -> None:
    """Add the role's spread unless the pods are spread over this topology already, in whatever way."""
    path = (*pod_path, "topologySpreadConstraints")
    found = changes.get(*path)
    if role.spread is None or _is_spread(() if isinstance(found, Absent) else found or (), role.spread):
        return
    constraint = {
        "maxSkew": 1,
        "topologyKey": role.spread,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {names.ROLE_LABEL: role.name}},
        "matchLabelKeys": [names.JOBSET_NAME_LABEL],
    }
    reason = f"role {role.name}, {because}, is spread over {role.spread}"
    changes.append(path, constraint, rule="roles/spread", reason=reason)


def _is_spread(constraints: Any, key: str) -> bool:
    return any(isinstance(each, Mapping) and each.get("topologyKey") == key for each in constraints)
