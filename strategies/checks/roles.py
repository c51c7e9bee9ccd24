"""Checks: what keeps the pods of a role from ever running, said before they wait for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from strategies.checks import contradictions
from strategies.claims import requests
from strategies.documents import paths
from strategies.documents.findings import Finding, error, warning
from strategies.jobs import assignments
from strategies.jobs.jobs import Job
from strategies.jobs.templates import Template, list_templates
from strategies.platform.placements import KNOWN, Node, Role
from strategies.roles import memories
from strategies.roles.tolerations import tolerates

__all__ = ["Nodes", "check_roles"]

Nodes = Callable[[Role], Iterable[Node]]
"""Returns the nodes of a role that are known, none where the cluster cannot be asked."""

_TRANSIENT = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_GIB = 1024**3


def check_roles(job: Job, nodes: Nodes) -> list[Finding]:
    """Check the roles of a JobSet, or of the JobSet that a TrainJob will become; nothing where no role is configured.

    Args:
        job: as it will be stored.
        nodes: of the cluster.
    """
    found: list[Finding] = []
    if not job.roles:
        return found
    profiles = {each.template.path: job.supply.profiles.get(each.profile or "") for each in requests.list_requests(job)}
    for template in list_templates(job):
        profile = profiles.get(template.path)
        for each in _template(job, template, profile.memory if profile else None, nodes):
            finding = each if job.kind == "JobSet" else _on_trainjob(job, template, each)
            if finding not in found:  # one label may speak for several replicated jobs
                found.append(finding)
    return found


def _template(job: Job, template: Template, memory: str | None, nodes: Nodes) -> Iterator[Finding]:
    assigned = assignments.find_assignment(job, template)
    if assigned is None:
        return
    if assigned.word not in KNOWN:
        message = f"is no role; {' and '.join(KNOWN)} are, and no label at all"
        yield error(assigned.field, assigned.word, message, rule="roles/label")
        return
    for other in assignments.within(template):
        if other.word != assigned.word:
            message = f"{assigned.where} says {assigned.word}; a replicated job has one role, remove one of the two"
            yield error(other.field, other.word, message, rule="roles/label")
    role = job.roles.get(assigned.word)
    if role is None:
        message = f"the configuration places no role {assigned.word}, so that its pods run anywhere"
        yield warning(assigned.field, assigned.word, message, rule="roles/label")
        return
    yield from contradictions.find(template, role)
    yield from _on_nodes(template, role, memories.planned(template, memory), nodes(role))


def _on_nodes(template: Template, role: Role, wanted: int, nodes: Iterable[Node]) -> Iterator[Finding]:
    """Compare with the role's nodes that are known; as soon as both can be met, the rest is not looked at."""
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
        message = f"tolerates the taints of none of the {owned} nodes of role {role.name}, such as {spoken}"
        hint = f"add a toleration to roles.{role.name} of the configuration"
        yield warning(template.field("tolerations"), None, f"{message}; {hint}", rule="roles/tolerations")


def _too_large(template: Template, role: Role, wanted: int, largest: int, owned: int) -> Finding:
    """Only a warning: a larger node may be on its way, and nobody but its maker knows."""
    asked, room = f"{wanted / _GIB:.4g}Gi", f"{largest / _GIB:.4g}Gi"
    message = (  # kubectl cuts a warning: first what counts
        f"none of the {owned} nodes of role {role.name} has more than {room} for all of a pod; "
        "ask for less, or add a larger node"
    )
    main = template.main
    inside = main[0][len(template.pod_path) :] if main else ()
    field = template.field(*inside, "resources", "requests", "memory")
    return warning(field, asked, message, rule="roles/memory")


def _stays(taint: Mapping[str, Any]) -> bool:
    """Whether a taint is somebody's choice and not a passing state of the node."""
    return not str(taint.get("key")).startswith(_TRANSIENT)


def _on_trainjob(job: Job, template: Template, finding: Finding) -> Finding:
    """Say on the TrainJob what will be found on its JobSet: in its patch, or in the runtime, which is named."""
    if not finding.field.startswith("spec.template.") or job.runtime is None:
        return finding
    for inside, path in template.written.items():
        place = template.field(*inside)
        if finding.field.startswith(place):
            own = paths.field(job.document, path) + finding.field.removeprefix(place)
            return dataclasses.replace(finding, field=own)
    value = "" if finding.value is None else f"{finding.value!r}: "
    message = f"in the pods that come of it, {finding.field}: {value}{finding.message}"
    return dataclasses.replace(finding, field="spec.runtimeRef.name", value=job.runtime.name, message=message)
