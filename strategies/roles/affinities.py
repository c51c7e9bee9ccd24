"""Affinities: a role's pods run on the role's nodes, and not on hosts with pods of other roles.

What the user wrote stays and is narrowed. The terms of a required node affinity are ORed, so the role's expressions are
added to each of them. A term without any expression matches no node and stays empty, because an expression of Muster's
in it would make it match nodes. Source: core/v1 NodeSelector, NodeSelectorTerm, PodAffinityTerm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import names
from muster.strategies.documents.paths import Absent, Path
from muster.strategies.platform.placements import Role

__all__ = ["REQUIRED", "is_empty", "keep_apart", "require"]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_FEW = 32
"""Terms that are changed one by one, which is shown best; more are replaced together, as they are restored."""


def require(changes: Changes, pod_path: Path, role: Role, because: str) -> None:
    """Restrict the pods to the role's nodes; a role without node labels adds nothing."""
    expressions = [{"key": key, "operator": "In", "values": list(values)} for key, values in role.node_labels.items()]
    terms_path = (*pod_path, "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
    reason = f"role {role.name}, {because}, runs on {role.nodes}"
    terms = changes.get(*terms_path)
    if not expressions:
        return
    if isinstance(terms, Absent) or not terms:
        changes.set(terms_path, [{"matchExpressions": expressions}], rule="roles/node-affinity", reason=reason)
        return
    reason = f"{reason}; your term is kept"
    if len(terms) > _FEW:
        narrowed = [_narrowed(term, expressions) for term in terms]
        changes.set(terms_path, narrowed, rule="roles/node-affinity", reason=reason)
        return
    for index, term in enumerate(terms):
        for wanted in _missing(term, expressions):
            path = (*terms_path, index, "matchExpressions")
            changes.append(path, wanted, rule="roles/node-affinity", reason=reason)


def _narrowed(term: Mapping[str, Any], expressions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    missing = _missing(term, expressions)
    return {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *missing]} if missing else term


def _missing(term: Mapping[str, Any], expressions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the expressions that a term does not imply; none for one that is empty."""
    if is_empty(term):
        return []
    present = term.get("matchExpressions") or ()
    return [wanted for wanted in expressions if not any(_implies(found, wanted) for found in present)]


def keep_apart(changes: Changes, pod_path: Path, role: Role, because: str) -> None:
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
    path = (*pod_path, "affinity", "podAntiAffinity", REQUIRED)
    found = changes.get(*path)
    if isinstance(found, Absent) or term not in (found or ()):
        reason = f"role {role.name}, {because}, does not share a host with {' or '.join(role.others)} pods"
        changes.append(path, term, rule="roles/anti-affinity", reason=reason)


def is_empty(term: Mapping[str, Any]) -> bool:
    """Whether a node selector term is empty, so that it matches no node."""
    return not term.get("matchExpressions") and not term.get("matchFields")


def _implies(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether each node that the present expression allows is also allowed by the wanted one."""
    values: Sequence[Any] = found.get("values") or ()
    same = found.get("key") == wanted["key"] and found.get("operator") == "In"
    return same and bool(values) and set(values) <= set(wanted["values"])
