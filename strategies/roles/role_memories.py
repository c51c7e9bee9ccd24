"""Memories: the memory that a pod requests of its host, so that as many sessions fit on a host as the platform planned.

Pods without a request are packed onto a host without limit and killed later; a pod that requests the memory of a whole
host keeps all others off it. Source of the sum: Kubernetes' effective request of a pod (containers together with
sidecars, or the largest init container; a request of the pod itself overrides both; a limit counts as a missing
request).
"""

from __future__ import annotations

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import quantities
from muster.strategies.documents.model import Container, PodSpec, Resources
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
    if main is not None and _has_none(template):
        path = (*main[0], "resources", "requests", _MEMORY)
        changes.set(path, memory, rule="roles/memory", reason=f"this is the host memory of one pod, set by {because}")


def planned(template: Template, memory: str | None) -> int:
    """Return the bytes that a pod asks for once `add` has added `memory`; None adds nothing."""
    return request(template.pod) + (quantities.count(memory) if memory is not None and _has_none(template) else 0)


def request(pod: PodSpec) -> int:
    """Return the bytes that a pod of this spec asks for; 0 where it asks for none."""
    whole = _asked(pod.resources)
    if whole is not None:
        return quantities.count(whole)
    sidecars = [_bytes(each) for each in pod.init_containers if each.restart_policy == "Always"]
    together = sum(map(_bytes, pod.containers)) + sum(sidecars)
    return max([together, *(_bytes(each) for each in pod.init_containers if each.restart_policy != "Always")])


def _has_none(template: Template) -> bool:
    """Whether neither the pod nor its main container asks for memory."""
    main = template.main
    return main is not None and _asked(template.pod.resources) is None and _asked(main[1].resources) is None


def _bytes(container: Container) -> int:
    return quantities.count(_asked(container.resources))


def _asked(resources: Resources) -> int | float | str | None:
    return resources.requests.get(_MEMORY, resources.limits.get(_MEMORY))
