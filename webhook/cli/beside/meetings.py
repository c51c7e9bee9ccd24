"""Meetings: an address of the coordinator that is the name of a Service of the input which reaches the first pod.

A Service without an address of its own resolves to its pods, and any other forwards the ports that it names
(Kubernetes documentation, Service).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strategies.documents.findings import Finding
from strategies.jobs.jobs import Job
from strategies.jobs.templates import Template
from strategies.launches import coordinators
from webhook.cli.beside import places
from webhook.cli.beside.inputs import Inputs, items, member

__all__ = ["settled"]

_RULE = "core/other-coordinator"
_SET = "jobset.sigs.k8s.io/"
_INDEX = "batch.kubernetes.io/job-completion-index"
_DEFAULT = "29500"


def settled(job: Job, inputs: Inputs, found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield those findings about an address that a Service of the input answers.

    Args:
        job: the job as it will be stored.
        inputs: all documents of the input.
        found: all findings about the job.
    """
    for finding in found:
        if finding.rule == _RULE and isinstance(finding.value, str):
            words = finding.value.replace("=", " ").split()
            name = words[-1].partition(":")[0].partition(".")[0] if words else ""
            services = inputs.named("Service", job.namespace, name)
            if len(services) == 1 and _reaches_the_first(member(services[0].document, "spec"), job):
                yield finding


def _reaches_the_first(spec: Mapping[str, Any], job: Job) -> bool:
    selector, place = member(spec, "selector"), job.container
    if place is None or job.kind != "JobSet" or coordinators.find_coordinator(job) is None:
        return False
    replicated = Template(job.document, place.job, place.job_path)
    if (
        not selector
        or not selector.items() <= _labels(job, replicated).items()
        or not _is_alone(selector, job, replicated)
    ):
        return False
    forwarded = {str(each.get("port")) for each in items(spec, "ports")}
    return spec.get("clusterIP") == "None" or not forwarded.isdisjoint(_ports(job))


def _labels(job: Job, template: Template) -> dict[str, Any]:
    """Return the labels of the first pod of a replicated job that tell it from others."""
    name = template.job.get("name")
    own = {
        f"{_SET}jobset-name": job.name,
        f"{_SET}replicatedjob-name": name,
        f"{_SET}job-index": "0",
        "batch.kubernetes.io/job-name": f"{job.name}-{name}-0",
        "job-name": f"{job.name}-{name}-0",
        _INDEX: "0",
    }
    return {**next(template.metadata("labels"))[0], **own}


def _is_alone(selector: Mapping[str, Any], job: Job, template: Template) -> bool:
    """Whether no other pod of the set has these labels."""
    one_job = template.job.get("replicas") in (None, 1) or not selector.keys().isdisjoint(
        {f"{_SET}job-index", "batch.kubernetes.io/job-name", "job-name"}
    )
    others = len(member(job.document, "spec").get("replicatedJobs") or ()) > 1
    of_part = {f"{_SET}replicatedjob-name", "batch.kubernetes.io/job-name", "job-name"}
    return _INDEX in selector and one_job and not (others and selector.keys().isdisjoint(of_part))


def _ports(job: Job) -> set[str]:
    """Return the ports at which the nodes may meet."""
    named = (entry for held in places.containers(job) for entry in held.env)
    return {_DEFAULT, *(str(each.get("value")) for each in named if "MASTER_PORT" in str(each.get("name")))}
