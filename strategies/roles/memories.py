"""Memories: the memory that a pod requests of its host, so that as many sessions fit on a host as the platform planned.

Pods without a request are packed onto a host without limit and killed later; a pod that requests the memory of a whole
host keeps all others off it. Source of the sum: Kubernetes' effective request of a pod (containers together with
sidecars, or the largest init container; a request of the pod itself overrides both; a limit counts as a missing
request).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import quantities
from muster.strategies.jobs.templates import Template

__all__ = ["add", "planned", "request"]

_MEMORY = "memory"


def add(changes: Changes, template: Template, memory: str, because: str) -> None:
    """Add a request of `memory` to the main container unless it, or the pod as a whole, already has one.

    Args:
        changes: the changes of the JobSet that holds `template`.
        template: the replicated job as it stands now.
        memory: the amount, a quantity.
        because: where the amount comes from, for the reason.
    """
    main = template.main
    if main is None or _asked(template.raw_spec) is not None or _asked(main[1]) is not None:
        return
    path = (*main[0], "resources", "requests", _MEMORY)
    changes.set(path, memory, rule="roles/memory", reason=f"this is the host memory of one pod, set by {because}")


def planned(template: Template, memory: str | None) -> int:
    """Return the bytes that a pod asks for once `add` has added `memory`; None adds nothing."""
    spec, main = template.raw_spec, template.main
    wants = memory is not None and main is not None and _asked(spec) is None and _asked(main[1]) is None
    return request(spec) + (quantities.count(memory) if wants else 0)


def request(pod_spec: Mapping[str, Any]) -> int:
    """Return the bytes that a pod of this spec asks for; 0 where it asks for none."""
    whole = _asked(pod_spec)
    if whole is not None:
        return quantities.count(whole)
    inits = pod_spec.get("initContainers") or ()
    sidecars = [each for each in inits if each.get("restartPolicy") == "Always"]
    together = sum(_bytes(each) for each in (*(pod_spec.get("containers") or ()), *sidecars))
    return max([together, *(_bytes(each) for each in inits if each not in sidecars)])


def _bytes(container: Mapping[str, Any]) -> int:
    return quantities.count(_asked(container))


def _asked(owner: Mapping[str, Any]) -> Any:
    resources = owner.get("resources") or {}
    for part in ("requests", "limits"):
        amount = (resources.get(part) or {}).get(_MEMORY)
        if amount is not None:
            return amount
    return None
