"""Contradictions: placement that a user wrote and that no node of the role can satisfy.

Muster only narrows placement, so such pods would wait for ever without an explanation. Only certain contradictions are
reported: the job requires other values of the very labels that the platform declares for each node of the role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs.templates import Template
from muster.strategies.platform.placements import Role
from muster.strategies.roles.affinities import REQUIRED, is_empty

__all__ = ["find", "lets"]

_TERMS = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")


def find(template: Template, role: Role) -> Iterator[Finding]:
    """Yield the parts of a replicated job's placement that the role's nodes cannot satisfy."""
    yield from _by_selector(template, role)
    yield from _by_terms(template, role)
    yield from _by_company(template, role)
    yield from _by_tolerations(template, role)


def _by_selector(template: Template, role: Role) -> Iterator[Finding]:
    selector = template.spec.get("nodeSelector") or {}
    for key, values in role.node_labels.items():
        if key in selector and selector[key] not in values:
            message = (
                f"no node of role {role.name} has this label, because the role runs on {role.nodes}; remove it or "
                "change the role"
            )
            yield error(template.field("nodeSelector", key), selector[key], message, rule="roles/node-affinity")


def _by_terms(template: Template, role: Role) -> Iterator[Finding]:
    required = ((template.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    terms = required.get("nodeSelectorTerms") or ()
    if terms and role.node_labels and not any(_can_match(term, role) for term in terms):
        message = (
            f"no node of role {role.name} can match any of these terms, because the role runs on {role.nodes}; "
            "change the terms or the role"
        )
        yield error(template.field(*_TERMS), terms, message, rule="roles/node-affinity")


def _can_match(term: Mapping[str, Any], role: Role) -> bool:
    if is_empty(term):
        return False
    expressions = term.get("matchExpressions") or ()
    return all(_left(values, key, expressions) for key, values in role.node_labels.items())


def _left(values: Sequence[str], key: str, expressions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the values of label `key` that all expressions about it allow."""
    about = [each for each in expressions if each.get("key") == key]
    return [value for value in values if all(lets(each, value) for each in about)]


def lets(expression: Mapping[str, Any], value: str) -> bool:
    """Whether an expression about a label (`matchExpressions`) allows this value; an unknown operator does."""
    judge = _OPERATORS.get(str(expression.get("operator")))
    return judge is None or judge(value, expression.get("values") or ())


def _is_beyond(value: str, bounds: Sequence[Any], sign: int) -> bool:
    try:
        return bool(bounds) and sign * int(value) > sign * int(bounds[0])
    except (TypeError, ValueError):
        return False


_OPERATORS: Mapping[str, Callable[[str, Sequence[Any]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda _value, _values: True,
    "DoesNotExist": lambda _value, _values: False,
    "Gt": lambda value, values: _is_beyond(value, values, 1),
    "Lt": lambda value, values: _is_beyond(value, values, -1),
}


def _by_company(template: Template, role: Role) -> Iterator[Finding]:
    path = ("affinity", "podAffinity", REQUIRED)
    wanted = ((template.spec.get("affinity") or {}).get("podAffinity") or {}).get(REQUIRED) or ()
    for index, term in enumerate(wanted if role.apart else ()):
        if term.get("topologyKey") == names.HOSTNAME_LABEL and _only(term.get("labelSelector") or {}, role.others):
            message = f"role {role.name} does not share a host with {' or '.join(role.others)} pods; remove this term"
            yield error(template.field(*path, index), term, message, rule="roles/anti-affinity")


def _only(selector: Mapping[str, Any], words: Sequence[str]) -> bool:
    """Whether a label selector selects only pods of these roles."""
    if (selector.get("matchLabels") or {}).get(names.ROLE_LABEL) in words:
        return True
    about = (each for each in selector.get("matchExpressions") or () if each.get("key") == names.ROLE_LABEL)
    return any(each.get("operator") == "In" and set(each.get("values") or ()) <= set(words) for each in about)


def _by_tolerations(template: Template, role: Role) -> Iterator[Finding]:
    """Only warn: an extra toleration does no harm, because the affinity decides where the pods run."""
    taints = [each for each in role.tolerations if each.get("operator") != "Exists"]
    for index, found in enumerate(template.spec.get("tolerations") or ()):
        key, value = found.get("key"), found.get("value")
        values = [each.get("value") for each in taints if each.get("key") == key]
        if found.get("operator") != "Exists" and values and value not in (*values, None):
            message = (
                f"does not tolerate the taint of the nodes of role {role.name}, whose value is "
                f"{' or '.join(map(repr, values))}; the role's toleration is added, and the pods run only on its nodes"
            )
            yield warning(template.field("tolerations", index), value, message, rule="roles/tolerations")
