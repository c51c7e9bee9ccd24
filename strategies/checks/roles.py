"""Checks of roles: what would keep the pods of a role from ever running, reported before they wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from muster.strategies.checks import contradictions
from muster.strategies.claims import requests
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs import assignments
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, list_templates, placed
from muster.strategies.platform.placements import KNOWN, Node, Role
from muster.strategies.roles import memories
from muster.strategies.roles.tolerations import tolerates

__all__ = ["Nodes", "check_roles"]

Nodes = Callable[[Role], Iterable[Node]]
"""Returns the known nodes of a role, none where the cluster cannot be asked."""

_TRANSIENT = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_GIB = 1024**3
_OF_RUNTIME = "spec.template."


def check_roles(job: Job, nodes: Nodes) -> list[Finding]:
    """Check the roles of a JobSet, or of the JobSet that a TrainJob will become; nothing where no role is configured.

    Args:
        job: the job as it will be stored.
        nodes: returns the cluster's nodes of a role.
    """
    found: list[Finding] = []
    if not job.roles:
        return found
    profiles = {each.template.path: job.supply.profiles.get(each.profile or "") for each in requests.list_requests(job)}
    for template in list_templates(job):
        profile = profiles.get(template.path)
        for each in _template(job, template, profile.memory if profile else None, nodes):
            finding = placed(job, each) if each.field.startswith(_OF_RUNTIME) else each
            if finding not in found:  # one label may speak for several replicated jobs
                found.append(finding)
    return found


def _template(job: Job, template: Template, memory: str | None, nodes: Nodes) -> Iterator[Finding]:
    assigned = assignments.find_assignment(job, template)
    if assigned is None:
        return
    if assigned.word not in KNOWN:
        message = f"is not a role; use {' or '.join(KNOWN)}, or remove the label"
        yield error(assigned.field, assigned.word, message, rule="roles/label")
        return
    for other in assignments.within(template):
        if other.word != assigned.word:
            message = f"{assigned.where} says {assigned.word}, and a replicated job has one role; remove one label"
            yield error(other.field, other.word, message, rule="roles/label")
    role = job.roles.get(assigned.word)
    if role is None:
        message = f"the configuration has no placement for role {assigned.word}, so its pods run anywhere"
        yield warning(assigned.field, assigned.word, message, rule="roles/label")
        return
    yield from contradictions.find(template, role)
    yield from _on_nodes(template, role, memories.planned(template, memory), nodes(role))


def _on_nodes(template: Template, role: Role, wanted: int, nodes: Iterable[Node]) -> Iterator[Finding]:
    """Compare memory and taints with the role's known nodes; once both can be met, the other nodes are not read."""
    tolerations = [*(template.spec.get("tolerations") or ()), *role.tolerations]
    owned, largest, roomy, refused = 0, 0, False, True
    taint: Mapping[str, Any] = {}
    for node in nodes:
        owned, largest = owned + 1, max(largest, node.memory or 0)
        roomy = roomy or node.memory is None or wanted <= node.memory
        kept_off = [each for each in node.taints if _stays(each) and not tolerates(tolerations, each)]
        taint = taint or next(iter(kept_off), {})
        refused = refused and bool(kept_off)
        if roomy and not refused:
            return
    if owned and not roomy:
        yield _too_large(template, role, wanted, largest, owned)
    if owned and refused:
        spoken = f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}"
        message = f"the pods tolerate the taints of none of the {owned} nodes of role {role.name}, such as {spoken}"
        hint = f"add a toleration to roles.{role.name} of the configuration"
        yield warning(template.field("tolerations"), None, f"{message}; {hint}", rule="roles/tolerations")


def _too_large(template: Template, role: Role, wanted: int, largest: int, owned: int) -> Finding:
    """Only warn: an autoscaler may add a larger node."""
    asked, room = f"{wanted / _GIB:.4g}Gi", f"{largest / _GIB:.4g}Gi"
    message = (  # kubectl truncates warnings, so the main point comes first
        f"none of the {owned} nodes of role {role.name} has more than {room} for a whole pod; "
        "ask for less, or add a larger node"
    )
    main = template.main
    inside = main[0][len(template.pod_path) :] if main else ()
    field = template.field(*inside, "resources", "requests", "memory")
    return warning(field, asked, message, rule="roles/memory")


def _stays(taint: Mapping[str, Any]) -> bool:
    """Whether a taint was set on purpose and is not a passing state of the node."""
    return not str(taint.get("key")).startswith(_TRANSIENT)
