"""Amounts: devices of a container that no pod ever gets, and memory in which nothing starts.

What an API server says itself of other resources is not repeated. Source: kubernetes
`pkg/apis/core/validation/validation.go` validateResourceRequirements and validateContainerResourceName.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from msgspec import Struct

from muster.strategies.documents import decoding, loose, model, quantities
from muster.strategies.documents.findings import Severity
from muster.strategies.platform import devices

__all__ = ["Problem", "check"]

_OF_KUBERNETES = ("cpu", "memory", "ephemeral-storage")
_LEAST = 2**20  # bytes; the C library alone takes more
_REFUSED = "so the API server refuses every pod"
_PERCENT = 100


class Problem(Struct, frozen=True):
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


def check(resources: Mapping[str, Any]) -> Iterator[Problem]:
    """Check the resources of one container, as the pod gets them; an amount that is not a quantity is left out."""
    limits, requests = loose.member(resources, "limits"), loose.member(resources, "requests")
    for name in {**limits, **requests}:
        where, written = (("limits", name), limits[name]) if name in limits else (("requests", name), requests[name])
        amount = _read(written)
        if "/" not in name and name not in _OF_KUBERNETES and not name.startswith("hugepages-"):
            near = next((known for known in ("nvidia.com/gpu", "amd.com/gpu") if known.endswith(f"/{name}")), "")
            hint = f", such as {near}" if near else ""
            message = f"is neither cpu, memory, ephemeral-storage nor hugepages, and has no vendor's domain{hint}"
            yield Problem(Severity.ERROR, where, written, f"{message}, {_REFUSED}", "core/resource-name")
        elif "/" in name and "kubernetes.io/" not in name:
            yield from _of_devices(name, limits, requests)
        elif name in _OF_KUBERNETES[1:] and name in limits and 0 < (amount or 0) < _LEAST:
            message = f"is {float(amount or 0):g} bytes, in which no process starts; write the unit, such as 64Gi"
            yield Problem(Severity.ERROR, where, written, message, "core/amount")
    yield from _wishes(resources, limits)


def _of_devices(name: str, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> Iterator[Problem]:
    """Judge the amount of a device, of which request and limit are the same."""
    part, written = ("limits", limits[name]) if name in limits else ("requests", requests[name])
    amount, wrong = _read(written), ""
    if amount is None:
        return
    if amount.denominator != 1 or amount < 0:
        wrong = f"is not a whole number, and devices cannot be divided this way, {_REFUSED}; ask for 1 or more"
    elif name in devices.PERCENTAGES and amount > _PERCENT and amount % _PERCENT:
        wrong = f"counts percent of one device, so the scheduler takes only less than {_PERCENT}, or whole multiples"
    if wrong:
        yield Problem(Severity.ERROR, (part, name), written, wrong, "core/amount")
    if name not in limits:
        message = f"has no limit, which a resource of this kind needs, {_REFUSED}; write the same amount in limits"
        yield Problem(Severity.ERROR, (part, name), written, message, "core/limit")
    elif name in requests and _read(requests[name]) not in (None, amount):
        message = f"differs from the limit of {written}, {_REFUSED}; write the same amount in both"
        yield Problem(Severity.ERROR, ("requests", name), requests[name], message, "core/limit")


def _read(amount: Any) -> Fraction | None:
    try:
        return Fraction(quantities.exact(amount)) if isinstance(amount, str | int | float) else None
    except ValueError:
        return None  # the API server says so at once


def _wishes(resources: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[Problem]:
    """Warn about what is accepted and that hardly any node can give."""
    for name, amount in limits.items():
        near = devices.misspelt(name)
        if near:
            message = f"no device plugin is known to offer this, and the pods would wait for ever; {near} may be meant"
            yield Problem(Severity.WARNING, ("limits", name), amount, message, "core/unknown-device")
        elif devices.is_replica(name) and quantities.count(amount) > 1:
            message = "replicas of a shared GPU may all be the same GPU, and NCCL refuses two ranks on one; ask for 1"
            yield Problem(Severity.WARNING, ("limits", name), amount, message, "core/shared-device")
    if sum("/" in name for name in limits) < 2:
        return
    makers = devices.makers(decoding.read(resources, model.Resources))
    if len(makers) > 1:
        message = (
            f"the pod gets devices of {' and '.join(makers)}, and hardly any node has both; ask for those of one "
            "vendor (Trainer adds resourcesPerNode to the resources of the runtime)"
        )
        yield Problem(Severity.WARNING, ("limits",), None, message, "core/two-vendors")
