"""Capacity: what all pods of a job together need, and ResourceQuotas, queues and PodGroups of the input give.

The quota admission refuses the pods that come last, and a training waits for them. Source: kubernetes
`pkg/quota/v1/evaluator/core/pods.go` (PodUsageFunc), `resource_claims.go` (Usage); a quota with a scope is left out.
Kueue never lets in a job whose queue covers other resources, or fewer of them: kueue of 2026-08-22
`pkg/scheduler/flavorassigner/flavorassigner.go` (resource unavailable in ClusterQueue; insufficient quota); what a
queue may borrow from its cohort is not known. A scheduler of gangs starts none of a group's pods before `minMember` of
them exist: scheduler-plugins v0.35.4 `pkg/coscheduling/core/core.go` PreFilter; Volcano v1.13
`pkg/scheduler/plugins/gang/gang.go` (JobEnqueueable, JobValid), `pkg/apis/scheduling/v1beta1/labels.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Literal

from muster.strategies.checks import volume_checks
from muster.strategies.documents import model, quantities
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.model import Quantity
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, placed
from muster.strategies.launches import topologies
from muster.webhook.cli.related.related_documents import ClusterQueue, Inputs, LocalQueue, PodGroup, ResourceQuota

__all__ = ["gangs", "queues", "quotas"]

_MOST_REQUESTS = 32
_PLAIN = {"cpu": "requests.cpu", "memory": "requests.memory", "ephemeral-storage": "requests.ephemeral-storage"}
_SHOWN = 60
_OF_JOBS = "count/jobs.batch"


def quotas(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report the quotas of the job's namespace that it needs more than."""
    limits = _limits(inputs, job.namespace)
    asked = _needed(job, inputs) if limits else {}
    for name, (most, quota) in limits.items():
        if asked.get(name, 0) > most:
            who = "all Jobs" if name == _OF_JOBS else "all pods"
            message = (
                f"{who} together need {float(asked[name]):g} of {name[:_SHOWN]}, and the ResourceQuota {quota} of the "
                f"input allows {float(most):g}, so the last are never made; raise it, or ask for less"
            )
            yield error(*_place(job), message, rule="core/quota")


def _limits(inputs: Inputs, namespace: str) -> Mapping[str, tuple[Fraction, str]]:
    """Return the least that the quotas of a namespace allow of each resource, with the name of that quota."""
    if namespace in inputs.limits:
        return inputs.limits[namespace]
    limits: dict[str, tuple[Fraction, str]] = {}
    for quota in inputs.of_kind(ResourceQuota, namespace):
        spec = quota.value
        for written, amount in spec.hard.items() if not (spec.scopes or spec.scope_selector) else ():
            name, most = _PLAIN.get(written, written), _value(amount)
            if most is not None and (name not in limits or most < limits[name][0]):
                limits[name] = (most, quota.name)
    inputs.limits[namespace] = limits
    return limits


def _place(job: Job) -> tuple[str, int | str | None]:
    if job.kind == "TrainJob":
        nodes = job.trainer.num_nodes
        name = job.runtime.name if job.runtime else None
        return ("spec.trainer.numNodes", nodes) if nodes else ("spec.runtimeRef.name", name)
    return "spec.replicatedJobs", None


def _needed(job: Job, inputs: Inputs) -> Mapping[str, Fraction]:
    """Return what the pods that run at the same time ask for, as a quota counts it; Jobs stay when they have ended."""
    every = templates.list_templates(job)
    total = {_OF_JOBS: Fraction(sum(each.job.jobs for each in every))}
    for template in volume_checks.together(every):
        count = volume_checks.count(job, template)
        total["pods"] = total.get("pods", Fraction(0)) + count
        for name, devices in _claimed(template, job.namespace, inputs).items():
            key = f"{name}.deviceclass.resource.k8s.io/devices"
            total[key] = total.get(key, Fraction(0)) + count * devices
        for container in template.pod.containers:
            limits, requests = container.resources.limits, container.resources.requests
            asked = {f"requests.{name}": amount for name, amount in {**limits, **requests}.items()}
            for name, amount in {**asked, **{f"limits.{name}": amount for name, amount in limits.items()}}.items():
                total[name] = total.get(name, Fraction(0)) + count * quantities.count(amount)
    return total


def _value(written: Quantity | None) -> Fraction | None:
    """Return a quantity; None where nothing is written, or no quantity."""
    try:
        return None if written is None else Fraction(quantities.value(written))
    except ValueError:
        return None  # its own check says so


def _claimed(template: Template, namespace: str, inputs: Inputs) -> Mapping[str, int]:
    """Return how many devices of each class one pod claims by templates of the input, at most, as a quota counts."""
    found: dict[str, int] = {}
    for entry in template.pod.resource_claims:
        given = inputs.named(model.ResourceClaimTemplate, namespace, entry.resource_claim_template_name)
        for request in given[-1].value.spec.spec.devices.requests if given else ():
            most: dict[str, int] = {}
            for each in (*request.first_available, *([request.exactly] if request.exactly else [])):
                count = _MOST_REQUESTS if each.allocation_mode == "All" else 1 if each.count is None else each.count
                most[each.device_class_name] = max(most.get(each.device_class_name, 0), count)
            for name, count in most.items():
                found[name] = found.get(name, 0) + count
    return found


_QUEUE = "kueue.x-k8s.io/queue-name"
_REQUESTS = "requests."


def queues(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report what a job asks for and its queue does not have."""
    name = job.metadata.labels.get(_QUEUE, "")
    local = inputs.only(LocalQueue, job.namespace, name)
    queue = local.cluster_queue if local else ""
    found = inputs.only(ClusterQueue, "", queue)
    if found is None:
        return
    covered, alone = _covered(found), not (found.cohort or found.cohort_name)
    for written, needed in _needed(job, inputs).items():
        resource = written.removeprefix(_REQUESTS)
        if written == resource or not needed:
            continue
        most = covered.get(resource)
        if resource not in covered:
            message = f"the ClusterQueue {queue} of the input does not cover {resource}, so Kueue never lets the job in"
        elif alone and most is not None and needed > most:
            message = (
                f"all pods together need {float(needed):g} of {resource}, and the ClusterQueue {queue} of the input "
                f"has {float(most):g} and no cohort, so Kueue never lets the job in"
            )
        else:
            continue
        yield warning(f"metadata.labels[{_QUEUE}]", name, f"{message}; correct one of them", rule="core/queue")


def _covered(queue: ClusterQueue) -> Mapping[str, Fraction | None]:
    """Return the quota of each resource in all flavors together, None for one that cannot be read."""
    found: dict[str, Fraction | None] = {}
    for group in queue.resource_groups:
        found.update(dict.fromkeys(group.covered_resources, Fraction(0)))
        for resource in (each for flavor in group.flavors for each in flavor.resources):
            before, amount = found.get(resource.name, Fraction(0)), _value(resource.nominal_quota)
            found[resource.name] = None if amount is None or before is None else before + amount
    return found


_GANG_MEMBERS: Mapping[str, tuple[Literal["labels", "annotations"], str]] = {
    "scheduling.x-k8s.io": ("labels", "scheduling.x-k8s.io/pod-group"),
    "scheduling.volcano.sh": ("annotations", "scheduling.k8s.io/group-name"),
}
"""By the API group of a PodGroup: where a pod names it."""


def gangs(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report a group that waits for more pods than this job has; where other jobs are given, nothing is known.

    Args:
        job: the job as it will be stored.
        inputs: all documents of the input.
    """
    groups = {(each.source.group, each.name): each.value for each in inputs.of_kind(PodGroup, job.namespace)}
    if not groups or inputs.makers != 1:
        return
    found: dict[tuple[str, str], tuple[int, Template, Path]] = {}
    for template in templates.list_templates(job):
        for group, (place, key) in _GANG_MEMBERS.items():
            written, path = next(template.metadata(place))
            named = (group, written.get(key, ""))
            if named in groups:
                before = found.get(named, (0, template, (*path, key)))
                found[named] = (before[0] + topologies.pods_of_replicated_job(job, template.job), *before[1:])
    for named, (count, template, path) in found.items():
        least = groups[named].min_member
        if least > count:
            message = f"this PodGroup starts no pod before {least} exist, and the job has {count}; correct minMember"
            yield placed(job, warning(template.locate(path), named[1], message, rule="core/gang-size"))
