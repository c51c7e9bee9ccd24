"""Pods that can never start: what JobSet and the API server accept, and the kubelet or the container then ends at.

What an API server says of a pod or a Job is not repeated: a dry run asks it. On a TrainJob a finding is at the field
that the TrainJob wrote, else at its runtime. The JobSet that Trainer makes is not checked again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from muster.strategies.checks import amounts, fields, jobset_policies, role_checks, startups, volume_checks
from muster.strategies.documents import names, paths
from muster.strategies.documents.findings import Finding, Severity, error
from muster.strategies.documents.model import Container, PodSpec, Trainer
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, list_templates, placed
from muster.strategies.launches import endless

__all__ = ["check_pods"]

_MOST = 50  # an object may have a hundred thousand names, and nobody reads more of them
_Fault = tuple[Path, Any, str, str, Severity]


def check_pods(job: Job) -> Iterator[Finding]:
    """Check all pods of a JobSet, or of the JobSet that a TrainJob will become; the first 50 findings."""
    return iter(()) if job.owner is not None else itertools.islice(_found(job), _MOST)


def _found(job: Job) -> Iterator[Finding]:
    templates = list(list_templates(job))
    for template in templates:
        yield from _of_template(job, template)
    if not any(_is_mine(job, template) for template in templates):
        yield from _of_container(job, None, (), startups.Start(PodSpec(), Container(), job.trainer))
    for finding in jobset_policies.check(job, templates):
        yield placed(job, finding)
    yield from volume_checks.check(job, templates)
    for inside, value, message in fields.unnamed(job.trainer.env) if job.kind == "TrainJob" else ():
        yield error(paths.field(job.document, ("spec", "trainer", *inside)), value, message, rule="core/object-name")


def _of_template(job: Job, template: Template) -> Iterator[Finding]:
    for inside, container in template.containers:
        mine = _is_mine(job, template) and container.name == names.CONTAINER_NODE
        for problem in amounts.check(container.resources):
            yield _of_resources(job, template, inside, problem, is_mine=mine)
        own = job.trainer if mine and inside[0] == "containers" else Trainer()
        yield from _of_container(job, template, inside, startups.Start(template.pod, container, own))
    every = itertools.chain(
        _claims(template), _of_pod(job, template), role_checks.faults(job, template), fields.faults(job, template)
    )
    for inside, value, message, rule, severity in every:
        yield placed(job, Finding(severity, template.field(*inside), value, message, rule))


def _of_container(job: Job, template: Template | None, inside: Path, start: startups.Start) -> Iterator[Finding]:
    """Report what keeps a container from its start; what `spec.trainer` wrote is reported there."""
    for place, value, message, rule, severity in startups.faults(start):
        if place[0] in ("command", "args", "image") and getattr(start.own, str(place[0])) not in (None, ""):
            field = paths.field(job.document, ("spec", "trainer", *place))
            yield Finding(severity, field, value, message, rule)
        elif template is not None:
            yield placed(job, Finding(severity, template.field(*inside, *place), value, message, rule))


def _is_mine(job: Job, template: Template) -> bool:
    """Whether `spec.trainer` writes a container of a replicated job."""
    return job.kind == "TrainJob" and job.container is not None and template.path == job.container.job_path


def _of_pod(job: Job, template: Template) -> Iterator[_Fault]:
    """Judge the user of a pod, and its init containers."""
    reader = endless.of_job(job)
    if startups.is_root(template.pod.security_context):
        yield ("securityContext", "runAsUser"), 0, startups.ROOT, "core/security-context", Severity.ERROR
    for index, container in enumerate(template.pod.init_containers):
        if container.restart_policy != "Always" and reader.never_ends(container.argv):
            message = (
                "never ends, and the other containers start when this init container has ended, so that the pod never "
                "starts; write restartPolicy: Always, which makes it run beside them"
            )
            place: Path = ("initContainers", index, "command")
            yield place, container.name, message, "core/endless-init", Severity.ERROR


def _claims(template: Template) -> Iterator[_Fault]:
    """Compare the claims of containers with those of the pod (validateResourceClaimNames)."""
    held = {claim.name for claim in template.pod.resource_claims}
    for index, claim in enumerate(template.pod.resource_claims):
        if bool(claim.resource_claim_name) is bool(claim.resource_claim_template_name):
            message = "needs either resourceClaimName or resourceClaimTemplateName, or the API server refuses the pod"
            yield ("resourceClaims", index), claim.name, message, "core/claim-source", Severity.ERROR
    for inside, container in template.containers:
        for index, use in enumerate(container.resources.claims):
            if use.name not in held:
                message = "the pod has no claim of this name, so the API server refuses it; add it to resourceClaims"
                place = (*inside, "resources", "claims", index, "name")
                yield place, use.name, message, "core/claim-name", Severity.ERROR


def _of_resources(job: Job, template: Template, inside: Path, problem: amounts.Problem, *, is_mine: bool) -> Finding:
    """Return the finding about an amount: at `resourcesPerNode` where the TrainJob wrote that amount."""
    own = job.trainer.resources_per_node if is_mine else None
    if own is not None:
        given = {"limits": own.limits, "requests": own.requests}
        for part in (problem.path[0], *(given.keys() - {problem.path[0]})):
            if given[part] and {*problem.path[1:]} <= given[part].keys():
                field = f"spec.trainer.resourcesPerNode.{part}" + "".join(f"[{name}]" for name in problem.path[1:])
                return Finding(problem.severity, field, problem.value, problem.message, problem.rule)
    field = template.field(*inside, "resources", *problem.path)
    return placed(job, Finding(problem.severity, field, problem.value, problem.message, problem.rule))
