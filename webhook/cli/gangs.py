"""Gangs: pods of the input compared with the PodGroup of the input that they name.

A scheduler of gangs starts none of a group's pods before `minMember` of them exist. The service cannot read PodGroups of
a cluster. Sources: scheduler-plugins v0.35.4 `pkg/coscheduling/core/core.go` PreFilter; Volcano v1.13
`pkg/scheduler/plugins/gang/gang.go` (JobEnqueueable, JobValid), `pkg/apis/scheduling/v1beta1/labels.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strategies.documents import paths
from strategies.documents.findings import Finding, warning
from strategies.documents.paths import Path
from strategies.jobs.jobs import Job
from strategies.jobs.templates import Template
from strategies.launches import topologies

__all__ = ["check"]

_MEMBERS = {
    "scheduling.x-k8s.io": ("labels", "scheduling.x-k8s.io/pod-group"),
    "scheduling.volcano.sh": ("annotations", "scheduling.k8s.io/group-name"),
}
"""By the API group of a PodGroup: where a pod names it."""
_MAKING_PODS = frozenset({"JobSet", "TrainJob", "Job", "Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"})


def check(
    job: Job, templates: Sequence[Template], others: Sequence[Mapping[str, Any]], namespace: str
) -> Iterator[Finding]:
    """Report a group that waits for more pods than this job has; where other jobs are given, nothing is known.

    Args:
        job: a job of the input.
        templates: its replicated jobs.
        others: all documents of the input.
        namespace: of the job.
    """
    groups = {key: each for key, each in map(_group, others) if key and _namespace(each) in (None, "", namespace)}
    if not groups or sum(each.get("kind") in _MAKING_PODS for each in others) != 1:
        return
    found: dict[tuple[str, str], tuple[int, Template, Path]] = {}
    for template in templates:
        for group, (member, key) in _MEMBERS.items():
            written, path = next(template.metadata(member))
            named = (group, str(written.get(key)))
            if named in groups:
                before = found.get(named, (0, template, (*path, key)))
                found[named] = (before[0] + topologies.pods_of_replicated_job(job, template.job), *before[1:])
    for named, (count, template, path) in found.items():
        least = _object(groups[named].get("spec")).get("minMember")
        if type(least) is int and least > count:
            message = f"this PodGroup starts no pod before {least} exist, and the job has {count}; correct its minMember"
            yield _placed(job, template, path, named[1], message)


def _group(document: Mapping[str, Any]) -> tuple[tuple[str, str] | None, Mapping[str, Any]]:
    group, name = str(document.get("apiVersion")).partition("/")[0], _object(document.get("metadata")).get("name")
    is_group = document.get("kind") == "PodGroup" and group in _MEMBERS and isinstance(name, str)
    return ((group, str(name)) if is_group else None), document


def _namespace(document: Mapping[str, Any]) -> Any:
    return _object(document.get("metadata")).get("namespace")


def _placed(job: Job, template: Template, path: Path, name: str, message: str) -> Finding:
    if job.kind == "JobSet" or job.runtime is None:
        return warning(paths.field(template.document, path), name, message, rule="core/gang-size")
    message = f"in the pods of this runtime, {paths.field(template.document, path)}: {name!r}: {message}"
    return warning("spec.runtimeRef.name", job.runtime.name, message, rule="core/gang-size")


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
