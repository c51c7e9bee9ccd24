"""Tolerations: a role's pods may run on nodes that the platform tainted to keep other pods off.

A toleration is added only where the user's own do not cover it. Source: core/v1 Toleration; an empty key with `Exists`
stands for every key, an empty effect for every effect (`k8s.io/component-helpers/scheduling/corev1` ToleratesTaint).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import decoding
from muster.strategies.documents.model import Taint, Toleration
from muster.strategies.jobs.templates import Template
from muster.strategies.platform.placements import Role

__all__ = ["add", "covers", "tolerates"]

_KEEPING_OFF = ("NoSchedule", "NoExecute")


def add(changes: Changes, template: Template, role: Role, because: str) -> None:
    """Add the missing tolerations of the role at the end of the list."""
    present = list(template.pod.tolerations)
    for document in role.tolerations:
        wanted = decoding.read(document, Toleration)
        if not any(covers(each, wanted) for each in present):
            present.append(wanted)
            reason = f"role {role.name}, {because}, runs on nodes tainted {_spoken(wanted)}"
            changes.append((*template.pod_path, "tolerations"), dict(document), rule="roles/tolerations", reason=reason)


def covers(found: Toleration, wanted: Toleration) -> bool:
    """Whether the present toleration tolerates, for as long, all that the wanted one does."""
    if found == wanted:
        return True
    if found.effect not in ("", wanted.effect) or found.toleration_seconds is not None:
        return False
    if found.operator == "Exists":
        return found.key in ("", wanted.key)
    same = (found.key, found.value) == (wanted.key, wanted.value)
    return found.operator in ("", "Equal") and same and wanted.operator != "Exists"


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether pods with these tolerations may be scheduled despite a taint."""
    if taint.effect not in _KEEPING_OFF:
        return True
    wanted = Toleration(key=taint.key, value=taint.value, effect=taint.effect)
    return any(covers(msgspec.structs.replace(each, toleration_seconds=None), wanted) for each in tolerations)


def _spoken(wanted: Toleration) -> str:
    value, effect = (f"={wanted.value}" if wanted.value else ""), (f":{wanted.effect}" if wanted.effect else "")
    return f"{wanted.key or 'with anything'}{value}{effect}"
