"""Scheduling: selectors, tolerations and affinities that the API server refuses, or that no node can satisfy.

JobSet's webhook looks at none of it. Source: kubernetes `pkg/apis/core/validation/validation.go`
ValidateTolerations, ValidateNodeSelectorRequirement, validateTopologySpreadConstraints; component-helpers
`scheduling/corev1/nodeaffinity` GetRequiredNodeAffinity: a node has to match the selector and one of the terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.checks import contradictions
from muster.strategies.documents import labels, loose
from muster.strategies.documents.paths import Path
from muster.strategies.roles.affinities import REQUIRED

__all__ = ["Fault", "faults"]

Fault = tuple[Path, Any, str, str]
"""Place inside the pod spec, value, message and rule."""

_RULE, _NOWHERE = "core/placement", "core/no-node"
_REFUSED = "so the API server refuses the pod"
_EFFECTS = (None, "", "NoSchedule", "PreferNoSchedule", "NoExecute")
_ALPHA = ("Lt", "Gt")  # tolerations of Kubernetes 1.35, behind a feature gate that is off
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NAMED = 5
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


def faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with the placement of one pod, whose shape has been checked."""
    if _JUDGED.isdisjoint(spec):
        return
    for member, judge in _JUDGES.items():
        if spec.get(member):
            yield from judge(spec[member])
    if spec.get("nodeSelector") and spec.get("affinity"):
        yield from _nowhere(spec["nodeSelector"], spec["affinity"])


def _selector(selector: Mapping[str, Any]) -> Iterator[Fault]:
    for key, value in selector.items():
        if not labels.is_key(key):
            message = f"is not a valid key of a label, {_REFUSED}; correct it"
            yield ("nodeSelector", key), key, message, _RULE
        elif isinstance(value, str) and not labels.is_value(value):
            message = f"is not a valid value of a label (letters, digits, - _ and . alone), {_REFUSED}; {_meant(value)}"
            yield ("nodeSelector", key), value, message, _RULE


def _meant(value: str) -> str:
    """Return what to do about a value that is none; NVIDIA's and others' labels have - where a name has spaces."""
    near = "-".join(value.split())
    return f"{near} may be meant" if near != value and labels.is_value(near) else "correct it"


def _tolerations(entries: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    for index, entry in enumerate(entries):
        key, operator, value = entry.get("key"), entry.get("operator") or "Equal", entry.get("value")
        place: Path = ("tolerations", index)
        if key and not labels.is_key(key):
            yield (*place, "key"), key, f"is not a key of a taint, {_REFUSED}; correct it", _RULE
        if not key and operator != "Exists":
            message = f"a toleration without a key is one of all taints and needs the operator Exists, {_REFUSED}; "
            yield place, None, f"{message}write the key of the taint, or operator: Exists", _RULE
        if entry.get("tolerationSeconds") is not None and entry.get("effect") != "NoExecute":
            message = f"tolerationSeconds goes with the effect NoExecute alone, {_REFUSED}; remove it"
            yield (*place, "tolerationSeconds"), entry["tolerationSeconds"], message, _RULE
        if entry.get("effect") not in _EFFECTS:
            yield (*place, "effect"), entry["effect"], f"is not {_either(_EFFECTS[2:])}, {_REFUSED}", _RULE
        if operator == "Exists" and value:
            message = f"the operator Exists takes no value, {_REFUSED}; remove the value, or write operator: Equal"
            yield (*place, "value"), value, message, _RULE
        elif operator == "Equal" and value and not labels.is_value(value):
            yield (*place, "value"), value, f"is not a value of a taint, {_REFUSED}; {_meant(value)}", _RULE
        elif operator not in ("Equal", "Exists", *_ALPHA):
            yield (*place, "operator"), operator, f"is not Equal or Exists, {_REFUSED}; use one of them", _RULE


def _affinity(affinity: Mapping[str, Any]) -> Iterator[Fault]:
    place: Path = ("affinity", "nodeAffinity")
    of_nodes = affinity.get("nodeAffinity") or {}
    for index, term in enumerate((of_nodes.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from _expressions((*place, REQUIRED, "nodeSelectorTerms", index), term, required=True)
    for index, wish in enumerate(loose.sequence(of_nodes.get(_PREFERRED))):
        term = wish.get("preference") if isinstance(wish, dict) else None
        if isinstance(term, dict):
            yield from _expressions((*place, _PREFERRED, index, "preference"), term, required=False)
    yield from _of_pods(affinity)
    yield from _weights(affinity)


def _of_pods(affinity: Mapping[str, Any]) -> Iterator[Fault]:
    """Judge the terms about other pods, each of which names the label of nodes that it keeps together or apart."""
    for member in ("podAffinity", "podAntiAffinity"):
        terms: Any = affinity.get(member)
        for kind in (REQUIRED, _PREFERRED) if isinstance(terms, dict) else ():
            for index, each in enumerate(loose.sequence(terms.get(kind))):
                inside: Path = () if kind == REQUIRED else ("podAffinityTerm",)
                term = each.get("podAffinityTerm") if inside and isinstance(each, dict) else each
                if isinstance(term, dict) and not term.get("topologyKey"):
                    message = f"needs a topologyKey, such as kubernetes.io/hostname, {_REFUSED}; add it"
                    yield ("affinity", member, kind, index, *inside, "topologyKey"), None, message, _RULE


def _weights(affinity: Mapping[str, Any]) -> Iterator[Fault]:
    """Judge the weights of wishes."""
    for member in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        held: Any = affinity.get(member)
        wishes = held.get(_PREFERRED) if isinstance(held, dict) else None
        for index, wish in enumerate(loose.sequence(wishes)):
            weight = wish.get("weight") if isinstance(wish, dict) else None
            if type(weight) is int and not 1 <= weight <= _HEAVIEST:
                message = f"is a number from 1 to {_HEAVIEST}, {_REFUSED}; correct it"
                yield ("affinity", member, _PREFERRED, index, "weight"), weight, message, _RULE


_HEAVIEST = 100


def _expressions(place: Path, term: Mapping[str, Any], *, required: bool) -> Iterator[Fault]:
    """Judge the expressions about labels; those of a wish may name values that no label can have."""
    for index, each in enumerate(loose.sequence(term.get("matchExpressions"))):
        if not isinstance(each, dict):
            continue
        inside: Path = (*place, "matchExpressions", index)
        operator, given = each.get("operator"), each.get("values")
        values = given if isinstance(given, list) else ()
        wrong = _count(operator, values)
        if wrong:
            yield (*inside, "operator"), operator, f"{wrong}, {_REFUSED}; correct it", _RULE
        if isinstance(each.get("key"), str) and not labels.is_key(each["key"]):
            yield (*inside, "key"), each["key"], f"is not a valid key of a label, {_REFUSED}; correct it", _RULE
        for number, value in enumerate(values if required else ()):
            if isinstance(value, str) and not labels.is_value(value):
                message = f"is not a value of a label, {_REFUSED}; {_meant(value)}"
                yield (*inside, "values", number), value, message, _RULE


def _count(operator: object, values: Sequence[Any]) -> str:
    """Return what is wrong with the number of values of an expression, "" for nothing."""
    if operator in ("In", "NotIn"):
        return "" if values else "needs values"
    if operator in ("Exists", "DoesNotExist"):
        return "takes no values" if values else ""
    if operator in ("Gt", "Lt"):
        return "" if len(values) == 1 else "takes one value"
    return "is not In, NotIn, Exists, DoesNotExist, Gt or Lt"


def _spread(constraints: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    seen = set()
    for index, each in enumerate(constraints):
        place: Path = ("topologySpreadConstraints", index)
        skew, way, least = each.get("maxSkew"), each.get("whenUnsatisfiable"), each.get("minDomains")
        if type(skew) is int and skew < 1:
            yield (*place, "maxSkew"), skew, f"must be at least 1, {_REFUSED}; raise it", _RULE
        if isinstance(way, str) and way not in _UNSATISFIABLE:
            message = f"is not {_either(_UNSATISFIABLE)}, {_REFUSED}; use one of them"
            yield (*place, "whenUnsatisfiable"), way, message, _RULE
        if type(least) is int and (least < 1 or way != "DoNotSchedule"):
            message = f"is at least 1, and goes with DoNotSchedule alone, {_REFUSED}; correct it"
            yield (*place, "minDomains"), least, message, _RULE
        kind = (each.get("topologyKey"), str(way))
        if kind in seen:
            message = f"an earlier constraint has the same topologyKey and whenUnsatisfiable, {_REFUSED}; remove one"
            yield (*place, "topologyKey"), kind[0], message, _RULE
        seen.add(kind)


_JUDGES: Mapping[str, Callable[[Any], Iterator[Fault]]] = {
    "nodeSelector": _selector,
    "tolerations": _tolerations,
    "affinity": _affinity,
    "topologySpreadConstraints": _spread,
}
_JUDGED = frozenset(_JUDGES)


def _nowhere(selector: Mapping[str, Any], affinity: Mapping[str, Any]) -> Iterator[Fault]:
    """Report terms of which none allows what the pod's own selector asks for."""
    terms = ((affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    if terms and all(_against(selector, term) for term in terms):
        about = {each.get("key") for term in terms for each in term.get("matchExpressions") or ()}
        both = itertools.islice((key for key in selector if key in about), _NAMED)
        asked = ", ".join(f"{key}={selector[key]}" for key in both)
        message = (
            f"no node can match any of these terms and the pod's nodeSelector, which asks for {asked}, so the pod "
            "waits for ever; change one of the two"
        )
        yield ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"), None, message, _NOWHERE


def _against(selector: Mapping[str, Any], term: Mapping[str, Any]) -> bool:
    """Whether an expression of a term does not allow the value of a label that the selector asks for."""
    found = term.get("matchExpressions") or ()
    return any(each.get("key") in selector and not contradictions.lets(each, selector[each["key"]]) for each in found)


def _either(words: Sequence[str | None]) -> str:
    return " or ".join(filter(None, words))
