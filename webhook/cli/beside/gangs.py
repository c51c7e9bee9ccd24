"""Gangs: pods of the input compared with the PodGroup of the input that they name.

A scheduler of gangs starts none of a group's pods before `minMember` of them exist. The service cannot read PodGroups
of a cluster. Sources: scheduler-plugins `pkg/coscheduling/core/core.go` PreFilter; Volcano v1.13
`pkg/scheduler/plugins/gang/gang.go` (JobEnqueueable, JobValid), `pkg/apis/scheduling/v1beta1/labels.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.findings import Finding, warning
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, placed
from muster.strategies.launches import topologies
from muster.webhook.cli.beside.inputs import Inputs, member, name_of

__all__ = ["check"]

_MEMBERS = {
    "scheduling.x-k8s.io": ("labels", "scheduling.x-k8s.io/pod-group"),
    "scheduling.volcano.sh": ("annotations", "scheduling.k8s.io/group-name"),
}
"""By the API group of a PodGroup: where a pod names it."""
_MAKING_PODS = frozenset({"JobSet", "TrainJob", "Job", "Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"})


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report a group that waits for more pods than this job has; where other jobs are given, nothing is known.

    Args:
        job: the job as it will be stored.
        inputs: all documents of the input.
    """
    groups = _groups(inputs, job.namespace)
    found: dict[tuple[str, str], tuple[int, Template, Path]] = {}
    for template in templates.list_templates(job) if groups else ():
        for group, (place, key) in _MEMBERS.items():
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
                if each.kind == "PodGroup" and each.group in _MEMBERS and inputs.is_in(each.document, namespace):
                    groups[each.group, name_of(each.document)] = each.document
    return groups
