"""Tolerations: a role's pods may run on nodes that the platform tainted to keep other pods off.

A toleration is added only where the user's own do not cover it. Source: core/v1 Toleration; an empty key with `Exists`
stands for every key, an empty effect for every effect (`k8s.io/component-helpers/scheduling/corev1` ToleratesTaint).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.strategies.changes.changes import Changes
from muster.strategies.documents.paths import Absent, Path
from muster.strategies.platform.placements import Role

__all__ = ["add", "covers", "tolerates"]

_KEEPING_OFF = ("NoSchedule", "NoExecute")

Toleration = Mapping[str, Any]


def add(changes: Changes, pod_path: Path, role: Role, because: str) -> None:
    """Add the missing tolerations of the role at the end of the list."""
    path = (*pod_path, "tolerations")
    for wanted in role.tolerations:
        found = changes.get(*path)
        if isinstance(found, Absent) or not any(covers(each, wanted) for each in found or ()):
            reason = f"role {role.name}, {because}, runs on nodes tainted {_spoken(wanted)}"
            changes.append(path, dict(wanted), rule="roles/tolerations", reason=reason)


def covers(found: Toleration, wanted: Toleration) -> bool:
    """Whether the present toleration tolerates, for as long, all that the wanted one does."""
    if found == wanted:
        return True
    if found.get("effect") and found.get("effect") != wanted.get("effect"):
        return False
    if found.get("tolerationSeconds") is not None:
        return False
    if _exists(found):
        return not found.get("key") or found.get("key") == wanted.get("key")
    if (found.get("operator") or "Equal") != "Equal":
        return False
    same = all((found.get(member) or "") == (wanted.get(member) or "") for member in ("key", "value"))
    return same and not _exists(wanted)


def tolerates(tolerations: Iterable[Toleration], taint: Mapping[str, Any]) -> bool:
    """Whether pods with these tolerations may be scheduled despite a taint."""
    if taint.get("effect") not in _KEEPING_OFF:
        return True
    wanted = {"key": taint.get("key"), "value": taint.get("value"), "effect": taint.get("effect")}
    return any(covers({**each, "tolerationSeconds": None}, wanted) for each in tolerations)


def _spoken(wanted: Toleration) -> str:
    key, value, effect = (str(wanted.get(member) or "") for member in ("key", "value", "effect"))
    return f"{key or 'with anything'}{f'={value}' if value else ''}{f':{effect}' if effect else ''}"


def _exists(toleration: Toleration) -> bool:
    return toleration.get("operator") == "Exists"
