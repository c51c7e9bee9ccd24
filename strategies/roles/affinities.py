"""Affinities: a role's pods run on the role's nodes, and not on hosts with pods of other roles.

What the user wrote stays and is narrowed. The terms of a required node affinity are ORed, so the role's expressions are
added to each of them. A term without any expression matches no node and stays empty, because an expression of Muster's
in it would make it match nodes. Source: core/v1 NodeSelector, NodeSelectorTerm, PodAffinityTerm.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import names
from muster.strategies.documents.model import Expression, NodeTerm
from muster.strategies.jobs.templates import Template
from muster.strategies.platform.placements import Role

__all__ = ["REQUIRED", "is_empty", "keep_apart", "require"]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_FEW = 32
"""Terms that are changed one by one, which is shown best; more are replaced together, as they are restored."""


def require(changes: Changes, template: Template, role: Role, because: str) -> None:
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


def keep_apart(changes: Changes, template: Template, role: Role, because: str) -> None:
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
