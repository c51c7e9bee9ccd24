"""Amounts: resources of a container that the API server refuses, so that its pod is never created.

JobSet's webhook and the CRDs let them pass; the API server refuses the Jobs that JobSet then makes, and the job waits
for ever without a pod. Source: kubernetes `pkg/apis/core/validation/validation.go` validateResourceRequirements
and validateContainerResourceName, `pkg/apis/core/helper/helpers.go`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from muster.strategies.documents import quantities
from muster.strategies.documents.findings import Severity
from muster.strategies.documents.pods import ResourceRequirements
from muster.strategies.platform import devices

__all__ = ["Problem", "check"]

_PARTS = ("limits", "requests")
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_BYTES = ("memory", "ephemeral-storage")
_LEAST = 2**20  # bytes; the C library alone takes more
_HUGE = "hugepages-"
_NATIVE = "kubernetes.io/"
_QUOTA = "requests."  # the name of an extended resource in a quota; as a resource it is refused
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST_PREFIX, _LONGEST_NAME = 253, 63
_REFUSED = "so the API server refuses every pod"
_PERCENT = 100
_NO_NAME = "is not a name of the form <domain in small letters>/<resource>"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of one container.

    Attributes:
        severity: whether the pod can never be created.
        path: the place inside `resources`, such as `("limits", "nvidia.com/gpu")`.
        value: the amount there.
        message: what is wrong and what to do.
        rule: id of the rule.
    """

    severity: Severity
    path: tuple[str, ...]
    value: Any
    message: str
    rule: str


def check(resources: Mapping[str, Any]) -> Sequence[Problem]:
    """Check the resources of one container, as the pod gets them; an amount that is not a quantity is left out."""
    limits, requests = (tuple((resources.get(part) or {}).items()) for part in _PARTS)
    amounts = [amount for _, amount in (*limits, *requests)]
    odd = len(amounts) > _FEW or any(type(amount) not in (str, int) for amount in amounts)
    if odd or sum(_length(part) for pair in (*limits, *requests) for part in pair) > _SHORT:
        return tuple(_problems(resources))
    return _remembered(limits, requests)


_Amounts = tuple[tuple[str, str | int], ...]
_FEW, _SHORT = 12, 1_000  # amounts, and characters of names and amounts, that are remembered


def _length(part: str | int) -> int:
    return len(part) if isinstance(part, str) else part.bit_length()


@functools.lru_cache(maxsize=512, typed=True)  # jobs write the same few amounts
def _remembered(limits: _Amounts, requests: _Amounts) -> tuple[Problem, ...]:
    return tuple(_problems({"limits": dict(limits), "requests": dict(requests)}))


def _problems(resources: Mapping[str, Any]) -> Iterator[Problem]:
    parts = {part: dict(resources.get(part) or {}) for part in _PARTS}
    amounts = {part: dict(_read(named)) for part, named in parts.items()}
    for name in {**parts["limits"], **parts["requests"]}:
        part = "limits" if name in parts["limits"] else "requests"
        where, written = (part, name), parts[part][name]
        wrong = _wrong_name(name)
        if wrong:
            yield Problem(Severity.ERROR, where, written, f"{wrong}, {_REFUSED}", "core/resource-name")
            continue
        for each in _PARTS:
            if name in amounts[each] and (wrong := _wrong_amount(name, amounts[each][name])):
                yield Problem(Severity.ERROR, (each, name), parts[each][name], wrong, "core/amount")
                break
        yield from _disagreement(name, parts, amounts)
        most = amounts["limits"].get(name, 0)
        if name in _BYTES and 0 < most < _LEAST:
            message = f"is {float(most):g} bytes, in which no process starts; write the unit, such as 64Gi"
            yield Problem(Severity.ERROR, ("limits", name), parts["limits"][name], message, "core/amount")
    yield from _huge_pages(parts)
    yield from _wishes(resources, parts)


def _read(named: Mapping[str, Any]) -> Iterator[tuple[str, Fraction | int]]:
    for name, amount in named.items():
        try:
            yield name, quantities.exact(amount)
        except ValueError:
            continue


def _wrong_name(name: str) -> str:
    """Return what is wrong with the name of a resource, "" for nothing."""
    return _judged_name(name) if len(name) <= _LONGEST_PREFIX + _LONGEST_NAME + 1 else _NO_NAME


@functools.lru_cache(maxsize=1024)  # jobs write the same few names
def _judged_name(name: str) -> str:
    domain, slash, rest = name.rpartition("/")
    if not slash:
        if name in _STANDARD or name.startswith(_HUGE):
            return ""
        near = next((known for known in ("nvidia.com/gpu", "amd.com/gpu") if known.endswith(f"/{name}")), "")
        hint = f", such as {near}" if near else ""
        return f"is neither cpu, memory, ephemeral-storage nor hugepages, and has no vendor's domain{hint}"
    fits = len(domain) <= _LONGEST_PREFIX and len(rest) <= _LONGEST_NAME
    if not (fits and _PREFIX.fullmatch(domain) and _NAME.fullmatch(rest)):
        return _NO_NAME
    if domain.startswith(_QUOTA) and _NATIVE not in name:
        return f"is a name of a quota; write it without {_QUOTA}"
    return ""


def _is_extended(name: str) -> bool:
    return "/" in name and _NATIVE not in name


def _wrong_amount(name: str, amount: Fraction | int) -> str:
    """Return what is wrong with the amount of a resource, "" for nothing."""
    if amount < 0:
        return f"is below 0, {_REFUSED}; ask for what the pod needs"
    if _is_extended(name) and amount.denominator != 1:
        return f"is not a whole number, and devices cannot be divided this way, {_REFUSED}; ask for 1 or more"
    if name in devices.PERCENTAGES and amount > _PERCENT and amount % _PERCENT:
        return f"counts percent of one device, so the scheduler takes only less than {_PERCENT}, or whole multiples"
    return ""


def _disagreement(
    name: str, parts: Mapping[str, Mapping[str, Any]], amounts: Mapping[str, Mapping[str, Fraction | int]]
) -> Iterator[Problem]:
    """Compare request and limit; only cpu, memory and other resources of Kubernetes itself may have a higher limit."""
    if name not in parts["requests"]:
        return
    where, written = ("requests", name), parts["requests"][name]
    strict = _is_extended(name) or name.startswith(_HUGE)
    if name not in parts["limits"]:
        if strict:
            message = f"has no limit, which a resource of this kind needs, {_REFUSED}; write the same amount in limits"
            yield Problem(Severity.ERROR, where, written, message, "core/limit")
        return
    asked, most = amounts["requests"].get(name), amounts["limits"].get(name)
    if asked is None or most is None or asked == most or (asked < most and not strict):
        return
    wanted = "differs from" if strict else "is above"
    message = f"{wanted} the limit of {parts['limits'][name]}, {_REFUSED}; write the same amount in both"
    yield Problem(Severity.ERROR, where, written, message, "core/limit")


def _huge_pages(parts: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    named = {**parts["requests"], **parts["limits"]}
    huge = next((name for name in named if name.startswith(_HUGE)), None)
    if huge is not None and not {"cpu", "memory"} & named.keys():
        part = "limits" if huge in parts["limits"] else "requests"
        message = f"needs cpu or memory beside it, {_REFUSED}; ask for memory too"
        yield Problem(Severity.ERROR, (part, huge), named[huge], message, "core/huge-pages")


def _wishes(resources: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Warn about what is accepted and that hardly any node can give."""
    for name, amount in parts["limits"].items():
        near = devices.misspelt(name)
        if near:
            message = f"no device plugin is known to offer this, and the pods would wait for ever; {near} may be meant"
            yield Problem(Severity.WARNING, ("limits", name), amount, message, "core/unknown-device")
        elif devices.is_replica(name) and quantities.count(amount) > 1:
            message = "replicas of a shared GPU may all be the same GPU, and NCCL refuses two ranks on one; ask for 1"
            yield Problem(Severity.WARNING, ("limits", name), amount, message, "core/shared-device")
    if sum("/" in name for name in parts["limits"]) < 2:
        return
    makers = devices.makers(cast("ResourceRequirements", resources))
    if len(makers) > 1:
        message = (
            f"the pod gets devices of {' and '.join(makers)}, and hardly any node has both; ask for those of one "
            "vendor (Trainer adds resourcesPerNode to the resources of the runtime)"
        )
        yield Problem(Severity.WARNING, ("limits",), None, message, "core/two-vendors")
