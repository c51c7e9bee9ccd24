"""Ranges: what LimitRanges and ResourceQuotas of the input ask of each container, without which its pod is refused.

Sources: kubernetes v1.36.3 `plugin/pkg/admission/limitranger/admission.go`, `pkg/apis/core/v1/defaults.go`
SetDefaults_LimitRangeItem, `pkg/quota/v1/evaluator/core/pods.go` Constraints.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from muster.strategies.documents import quantities
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs.jobs import Job
from muster.webhook.cli.beside import places
from muster.webhook.cli.beside.inputs import Inputs, items, member, name_of
from muster.webhook.cli.beside.places import Held

__all__ = ["check", "value"]

_RULE = "core/limit-range"
_COUNTED = ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_PLAIN = {"cpu": "requests.cpu", "memory": "requests.memory"}
_MOST = 50
_SHOWN = 60


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report containers that are outside a range of their namespace, or do not say what its quota counts."""
    ranges = [
        (name_of(each.document), item)
        for each in inputs.of_kind("LimitRange", job.namespace)
        for item in items(member(each.document, "spec"), "limits")
        if item.get("type") == "Container"
    ]
    needed = _needed(inputs, job.namespace, [item for _, item in ranges])
    for held in itertools.islice(places.containers(job), _MOST) if ranges or needed else ():
        resources = member(held.container, "resources")
        for name, item in ranges:
            yield from _outside(held, resources, name, item)
        whole = held.template.spec.get("resources")  # of the pod, beside which its containers say nothing
        missing = [each for each in needed if not whole and not _is_said(resources, each)]
        if missing:
            message = (
                f"the ResourceQuota {needed[missing[0]]} of the input counts {' and '.join(missing)}, and a pod whose "
                "containers do not set them is refused unless a LimitRange gives them; add them"
            )
            yield held.report(warning, "resources", held.name, message, "core/quota")


def _outside(held: Held, resources: Mapping[str, Any], name: str, item: Mapping[str, Any]) -> Iterator[Finding]:
    limits, requests = member(resources, "limits"), member(resources, "requests")
    for word, asked in (("max", {**requests, **limits}), ("min", {**limits, **requests})):
        for resource, bound in member(item, word).items():
            least, amount = value(bound), value(asked.get(resource))
            if least is None or amount is None:
                continue
            if amount > least if word == "max" else amount < least:
                side = "above the most" if word == "max" else "below the least"
                message = (
                    f"is {side} {str(resource)[:_SHOWN]} that the LimitRange {name} of the input allows a container, "
                    f"{str(bound)[:_SHOWN]}, so that no pod is made; correct one of them"
                )
                yield held.report(error, "resources", str(asked[resource])[:_SHOWN], message, _RULE)


def _needed(inputs: Inputs, namespace: str, ranges: list[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return what every container has to say, each with the quota that counts it; defaults of a range say it too."""
    found: dict[str, str] = {}
    for quota in inputs.of_kind("ResourceQuota", namespace):
        spec = member(quota.document, "spec")
        for written in {} if spec.get("scopes") or spec.get("scopeSelector") else member(spec, "hard"):
            name = _PLAIN.get(written, written)
            if name in _COUNTED and not any(_gives(each, name) for each in ranges):
                found.setdefault(name, name_of(quota.document))
    return found


def _gives(item: Mapping[str, Any], name: str) -> bool:
    part, _, resource = name.partition(".")
    limits = {**member(item, "max"), **member(item, "default")}
    return resource in (
        limits if part == "limits" else {**limits, **member(item, "min"), **member(item, "defaultRequest")}
    )


def _is_said(resources: Mapping[str, Any], name: str) -> bool:
    part, _, resource = name.partition(".")
    return resource in member(resources, part) or (part == "requests" and resource in member(resources, "limits"))


def value(written: object) -> Fraction | None:
    """Return a quantity; None where nothing is written, or no quantity."""
    try:
        return Fraction(quantities.exact(written)) if isinstance(written, str | int) else None
    except ValueError:
        return None  # its own check says so
