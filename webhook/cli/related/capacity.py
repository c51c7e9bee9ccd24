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
from typing import Any, Literal

from muster.strategies.checks import volume_checks
from muster.strategies.documents import decoding, quantities
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, placed
from muster.strategies.launches import topologies
from muster.webhook.cli.related.related_documents import Inputs, items, member, name_of

__all__ = ["gangs", "queues", "quotas"]

_MOST_REQUESTS = 32
_PLAIN = {"cpu": "requests.cpu", "memory": "requests.memory", "ephemeral-storage": "requests.ephemeral-storage"}
_SHOWN = 60


def quotas(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report the quotas of the job's namespace that it needs more than."""
    limits = _limits(inputs, job.namespace)
    asked = _needed(job, inputs) if limits else {}
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
                name, most = _PLAIN.get(written, written), _value(amount)
                if most is not None and (name not in limits or most < limits[name][0]):
                    limits[name] = (most, name_of(quota.document))
    return limits


def _place(job: Job) -> tuple[str, Any]:
    if job.kind == "TrainJob":
        nodes = job.trainer.num_nodes
        return ("spec.trainer.numNodes", nodes) if nodes else ("spec.runtimeRef.name", job.runtime and job.runtime.name)
    return "spec.replicatedJobs", None


_OF_JOBS = ("count/jobs.batch",)


def _needed(job: Job, inputs: Inputs) -> Mapping[str, Fraction]:
    """Return what the pods that run at the same time ask for, as a quota counts it; Jobs stay when they have ended."""
    every = templates.list_templates(job)
    total = {_OF_JOBS[0]: Fraction(sum(each.job.jobs for each in every))}
    for template in volume_checks.together(every):
        count = volume_checks.count(job, template)
        total["pods"] = total.get("pods", Fraction(0)) + count
        for name, devices in _claimed(template, job.namespace, inputs).items():
            key = f"{name}.deviceclass.resource.k8s.io/devices"
            total[key] = total.get(key, Fraction(0)) + count * devices
        for container in items(template.raw_spec, "containers"):
            resources = member(container, "resources")
            limits, requests = member(resources, "limits"), member(resources, "requests")
            asked = {f"requests.{name}": amount for name, amount in {**limits, **requests}.items()}
            for name, amount in {**asked, **{f"limits.{name}": amount for name, amount in limits.items()}}.items():
                total[name] = total.get(name, Fraction(0)) + count * (_value(amount) or 0)
    return total


def _value(written: object) -> Fraction | None:
    """Return a quantity; None where nothing is written, or no quantity."""
    try:
        return Fraction(quantities.value(written)) if isinstance(written, str | int) else None
    except ValueError:
        return None  # its own check says so


def _claimed(template: Template, namespace: str, inputs: Inputs) -> Mapping[str, int]:
    """Return how many devices of each class one pod claims by templates of the input, at most, as a quota counts."""
    found: dict[str, int] = {}
    for entry in template.raw_spec.get("resourceClaims") or ():
        documents = inputs.named(
            "ResourceClaimTemplate", namespace, decoding.mapping(entry).get("resourceClaimTemplateName")
        )
        for request in (
            decoding.items(member(documents[-1].document, "spec", "spec", "devices"), "requests") if documents else ()
        ):
            most: dict[str, int] = {}
            for each in [
                decoding.mapping(each)
                for each in (*decoding.sequence(request.get("firstAvailable")), request.get("exactly") or {})
            ]:
                count = each.get("count", 1) if each.get("allocationMode") != "All" else _MOST_REQUESTS
                name = each.get("deviceClassName")
                if isinstance(name, str) and type(count) is int:
                    most[name] = max(most.get(name, 0), count)
            for name, count in most.items():
                found[name] = found.get(name, 0) + count
    return found


_QUEUE = "kueue.x-k8s.io/queue-name"
_REQUESTS = "requests."


def queues(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report what a job asks for and its queue does not have."""
    name = member(job.document, "metadata", "labels").get(_QUEUE)
    queues = inputs.named("LocalQueue", job.namespace, name)
    found = inputs.named("ClusterQueue", "", member(queues[0].document, "spec").get("clusterQueue")) if queues else []
    if len(queues) != 1 or len(found) != 1:
        return
    spec, queue = member(found[0].document, "spec"), name_of(found[0].document)
    covered = _covered(spec)
    alone = not (spec.get("cohort") or spec.get("cohortName"))
    for written, needed in _needed(job, inputs).items():
        resource = written.removeprefix(_REQUESTS)
        if written == resource or not needed:
            continue
        if resource not in covered:
            message = f"the ClusterQueue {queue} of the input does not cover {resource}, so Kueue never lets the job in"
        elif alone and covered[resource] is not None and needed > (covered[resource] or 0):
            message = (
                f"all pods together need {float(needed):g} of {resource}, and the ClusterQueue {queue} of the input "
                f"has {float(covered[resource] or 0):g} and no cohort, so Kueue never lets the job in"
            )
        else:
            continue
        yield warning(f"metadata.labels[{_QUEUE}]", name, f"{message}; correct one of them", rule="core/queue")


def _covered(spec: Mapping[str, Any]) -> Mapping[str, Fraction | None]:
    """Return the quota of each resource in all flavors together, None for one that cannot be read."""
    found: dict[str, Fraction | None] = {}
    for group in items(spec, "resourceGroups"):
        covered = group.get("coveredResources")
        found.update({str(name): Fraction(0) for name in (covered if isinstance(covered, list) else ())})
        for flavor in items(group, "flavors"):
            for resource in items(flavor, "resources"):
                name, before = str(resource.get("name")), found.get(str(resource.get("name")), Fraction(0))
                amount = _value(resource.get("nominalQuota"))
                found[name] = None if amount is None or before is None else before + amount
    return found


_GANG_MEMBERS: Mapping[str, tuple[Literal["labels", "annotations"], str]] = {
    "scheduling.x-k8s.io": ("labels", "scheduling.x-k8s.io/pod-group"),
    "scheduling.volcano.sh": ("annotations", "scheduling.k8s.io/group-name"),
}
"""By the API group of a PodGroup: where a pod names it."""
_MAKING_PODS = frozenset({"JobSet", "TrainJob", "Job", "Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"})


def gangs(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report a group that waits for more pods than this job has; where other jobs are given, nothing is known.

    Args:
        job: the job as it will be stored.
        inputs: all documents of the input.
    """
    groups = _groups(inputs, job.namespace)
    found: dict[tuple[str, str], tuple[int, Template, Path]] = {}
    for template in templates.list_templates(job) if groups else ():
        for group, (place, key) in _GANG_MEMBERS.items():
            written, path = next(template.metadata(place))
            named = (group, str(written.get(key)))
            if named in groups:
                before = found.get(named, (0, template, (*path, key)))
                found[named] = (before[0] + topologies.pods_of_replicated_job(job, template.job), *before[1:])
    for named, (count, template, path) in found.items():
        least = member(groups[named], "spec").get("minMember")
        if type(least) is int and least > count:
            message = f"this PodGroup starts no pod before {least} exist, and the job has {count}; correct minMember"
            yield placed(job, warning(template.locate(path), named[1], message, rule="core/gang-size"))


def _groups(inputs: Inputs, namespace: str) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Return the PodGroups of a namespace by API group and name; none where several documents make pods."""
    groups: dict[tuple[str, str], Mapping[str, Any]] | None = inputs.memory.get(("gangs", namespace))
    if groups is None:
        groups = inputs.memory["gangs", namespace] = {}
        if sum(each.kind in _MAKING_PODS for each in inputs.sources) == 1:
            for each in inputs.sources:
                if each.kind == "PodGroup" and each.group in _GANG_MEMBERS and inputs.is_in(each.document, namespace):
                    groups[each.group, name_of(each.document)] = each.document
    return groups
