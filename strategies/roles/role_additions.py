"""Additions: what a role adds to a JobSet when it is created.

Nothing that a user wrote is replaced, and nothing is added twice. A TrainJob is not changed: the JobSet describes the
pods, and Trainer leaves alone what it did not write.

Affinities: what the user wrote is narrowed. The terms of a required node affinity are ORed, so the role's expressions
are added to each of them. A term without any expression matches no node and stays empty, because an expression of
Muster's in it would make it match nodes. Source: core/v1 NodeSelector, NodeSelectorTerm, PodAffinityTerm.

Tolerations are added only where the user's own do not cover them. Source: core/v1 Toleration; an empty key with
`Exists` stands for every key, an empty effect for every effect (`k8s.io/component-helpers/scheduling/corev1`
ToleratesTaint).

Memory: pods without a request are packed onto a host without limit and killed later; a pod that requests the memory of
a whole host keeps all others off it. Source of the sum: Kubernetes' effective request of a pod (containers together
with sidecars, or the largest init container; a request of the pod itself overrides both; a limit counts as a missing
request).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from muster.strategies.changes.changes import Changes
from muster.strategies.claims import requests
from muster.strategies.documents import decoding, names, quantities
from muster.strategies.documents.model import Container, Expression, NodeTerm, PodSpec, Resources, Taint, Toleration
from muster.strategies.jobs import assignments
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, list_templates
from muster.strategies.platform.placements import KNOWN, Role

__all__ = ["REQUIRED", "covers", "enforce", "is_empty", "planned", "request", "tolerates"]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_FEW = 32
"""Terms that are changed one by one, which is shown best; more are replaced together, as they are restored."""
_KEEPING_OFF = ("NoSchedule", "NoExecute")
_MEMORY = "memory"


def enforce(job: Job, changes: Changes) -> None:
    """Place each replicated job of a JobSet by its role, and set the memory request of its profile."""
    if job.kind != "JobSet":
        return
    for asked in requests.list_requests(job):
        _measure(job, changes, asked)
    for template in list_templates(job) if job.roles else ():
        if template.pod.containers:
            _place(job, changes, template)


def _place(job: Job, changes: Changes, template: Template) -> None:
    assigned = assignments.find_assignment(job, template)
    if assigned is None or assigned.word not in KNOWN:
        return
    _label(changes, template, assigned)
    role = job.roles.get(assigned.word)
    if role is not None:
        for add in (_require, _keep_apart, _tolerate, _spread):
            add(changes, template, role, f"set by {assigned.where}")


def _label(changes: Changes, template: Template, assigned: assignments.Assignment) -> None:
    if names.ROLE_LABEL not in template.job.template.spec.template.metadata.labels:
        reason = f"pods of other roles recognise role {assigned.word} by this label; {assigned.where} sets the role"
        path = (*template.pod_path[:-1], "metadata", "labels", names.ROLE_LABEL)
        changes.set(path, assigned.word, rule="roles/label", reason=reason)


def _measure(job: Job, changes: Changes, asked: requests.ClaimRequest) -> None:
    profile = job.supply.profiles.get(asked.profile or "")
    if profile is not None and profile.memory is not None:
        because = f"profile {profile.name}, asked for by {asked.because}"
        _request(changes, asked.template, profile.memory, because)


def _spread(changes: Changes, template: Template, role: Role, because: str) -> None:
    """Add the role's spread unless a constraint already spreads the pods over this topology.

    The spread is soft: a pod that finds no room where the count is lowest runs elsewhere, because pods that share a
    device must also share its node. `matchLabelKeys` counts the pods of the same JobSet without naming it, since a
    generated name is not known yet (core/v1 TopologySpreadConstraint, on by default since Kubernetes 1.27).
    """
    if role.spread in (None, *(each.topology_key for each in template.pod.topology_spread_constraints)):
        return
    constraint = {
        "maxSkew": 1,
        "topologyKey": role.spread,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {names.ROLE_LABEL: role.name}},
        "matchLabelKeys": [names.JOBSET_NAME_LABEL],
    }
    reason = f"role {role.name}, {because}, is spread over {role.spread}"
    path = (*template.pod_path, "topologySpreadConstraints")
    changes.append(path, constraint, rule="roles/spread", reason=reason)


def _require(changes: Changes, template: Template, role: Role, because: str) -> None:
    """Restrict the pods to the role's nodes; a role without node labels adds nothing."""
    path = (*template.pod_path, "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
    reason = f"role {role.name}, {because}, runs on {role.nodes}"
    terms = template.pod.affinity.node_affinity.required.node_selector_terms
    if not role.node_labels:
        return
    if not terms:
        changes.set(path, [{"matchExpressions": _missing(None, role)}], rule="roles/node-affinity", reason=reason)
        return
    reason = f"{reason}; your term is kept"
    if len(terms) > _FEW:
        narrowed = [
            {**raw, "matchExpressions": [*(raw.get("matchExpressions") or ()), *missing]} if missing else raw
            for raw, missing in zip(changes.get(*path), (_missing(term, role) for term in terms), strict=True)
        ]
        changes.set(path, narrowed, rule="roles/node-affinity", reason=reason)
        return
    for index, term in enumerate(terms):
        for wanted in _missing(term, role):
            changes.append((*path, index, "matchExpressions"), wanted, rule="roles/node-affinity", reason=reason)


def _missing(term: NodeTerm | None, role: Role) -> list[dict[str, object]]:
    """Return the expressions of a role that a term does not imply; none for one that is empty, all for None."""
    if term is not None and is_empty(term):
        return []
    present = term.match_expressions if term is not None else ()
    return [
        {"key": key, "operator": "In", "values": list(values)}
        for key, values in role.node_labels.items()
        if not any(_implies(found, key, values) for found in present)
    ]


def _keep_apart(changes: Changes, template: Template, role: Role, because: str) -> None:
    """Keep the pods off hosts with pods of another role in any namespace; a role that is not apart adds nothing."""
    if not role.apart:
        return
    term = {
        "labelSelector": {
            "matchExpressions": [{"key": names.ROLE_LABEL, "operator": "In", "values": list(role.others)}]
        },
        "namespaceSelector": {},
        "topologyKey": names.HOSTNAME_LABEL,
    }
    path = (*template.pod_path, "affinity", "podAntiAffinity", REQUIRED)
    if not template.pod.affinity.pod_anti_affinity.required or term not in changes.get(*path):
        reason = f"role {role.name}, {because}, does not share a host with {' or '.join(role.others)} pods"
        changes.append(path, term, rule="roles/anti-affinity", reason=reason)


def is_empty(term: NodeTerm) -> bool:
    """Whether a node selector term is empty, so that it matches no node."""
    return not term.match_expressions and not term.match_fields


def _implies(found: Expression, key: str, values: Sequence[str]) -> bool:
    """Whether each node that the present expression allows has one of these values of a label."""
    return (found.key, found.operator) == (key, "In") and bool(found.values) and set(found.values) <= set(values)


def _tolerate(changes: Changes, template: Template, role: Role, because: str) -> None:
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


def _request(changes: Changes, template: Template, memory: str, because: str) -> None:
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
    """Return the bytes that a pod asks for once this amount of memory is added; None adds nothing."""
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
