"""Quotas: ResourceQuotas of the input that all pods of a job together exceed.

The quota admission refuses the pods that come last, and a training waits for them. Source: kubernetes v1.36.3
`pkg/quota/v1/evaluator/core/pods.go` (PodUsageFunc), `resource_claims.go` (Usage); a quota with a scope is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from muster.strategies.checks import volumes
from muster.strategies.documents import pods, quantities
from muster.strategies.documents.findings import Finding, error
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.webhook.cli.beside import claims
from muster.webhook.cli.beside.inputs import Inputs, items, member, name_of

__all__ = ["check", "needed", "value"]

_PLAIN = {"cpu": "requests.cpu", "memory": "requests.memory", "ephemeral-storage": "requests.ephemeral-storage"}
_SHOWN = 60


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report the quotas of the job's namespace that it needs more than."""
    limits = _limits(inputs, job.namespace)
    asked = needed(job, inputs) if limits else {}
    for name, (most, quota) in limits.items():
        if asked.get(name, 0) > most:
            who = "all Jobs" if name in _OF_JOBS else "all pods"
            message = (
                f"{who} together need {float(asked[name]):g} of {name[:_SHOWN]}, and the ResourceQuota {quota} of the "
                f"input allows {float(most):g}, so the last are never made; raise it, or ask for less"
            )
            yield error(*_place(job), message, rule="core/quota")


def _limits(inputs: Inputs, namespace: str) -> Mapping[str, tuple[Fraction, str]]:
    """Return the least that the quotas of a namespace allow of each resource, with the name of that quota."""
    limits: dict[str, tuple[Fraction, str]] | None = inputs.memory.get(("quotas", namespace))
    if limits is None:
        limits = inputs.memory["quotas", namespace] = {}
        for quota in inputs.of_kind("ResourceQuota", namespace):
            spec = member(quota.document, "spec")
            hard = {} if spec.get("scopes") or spec.get("scopeSelector") else member(spec, "hard")
            for written, amount in hard.items():
                name, most = _PLAIN.get(written, written), value(amount)
                if most is not None and (name not in limits or most < limits[name][0]):
                    limits[name] = (most, name_of(quota.document))
    return limits


def _place(job: Job) -> tuple[str, Any]:
    if job.kind == "TrainJob":
        nodes = job.trainer.get("numNodes")
        return ("spec.trainer.numNodes", nodes) if nodes else ("spec.runtimeRef.name", job.runtime and job.runtime.name)
    return "spec.replicatedJobs", None


_OF_JOBS = ("count/jobs.batch",)


def needed(job: Job, inputs: Inputs) -> Mapping[str, Fraction]:
    """Return what the pods that run at the same time ask for, as a quota counts it; Jobs stay when they have ended."""
    every = templates.list_templates(job)
    total = {_OF_JOBS[0]: Fraction(sum(pods.replicas(each.job) for each in every))}
    for template in volumes.together(every):
        count = volumes.count(job, template)
        total["pods"] = total.get("pods", Fraction(0)) + count
        for name, devices in claims.asked(template, job.namespace, inputs).items():
            key = f"{name}.deviceclass.resource.k8s.io/devices"
            total[key] = total.get(key, Fraction(0)) + count * devices
        for container in items(template.spec, "containers"):
            resources = member(container, "resources")
            limits, requests = member(resources, "limits"), member(resources, "requests")
            asked = {f"requests.{name}": amount for name, amount in {**limits, **requests}.items()}
            for name, amount in {**asked, **{f"limits.{name}": amount for name, amount in limits.items()}}.items():
                total[name] = total.get(name, Fraction(0)) + count * (value(amount) or 0)
    return total


def value(written: object) -> Fraction | None:
    """Return a quantity; None where nothing is written, or no quantity."""
    try:
        return Fraction(quantities.value(written)) if isinstance(written, str | int) else None
    except ValueError:
        return None  # its own check says so
