"""Pods that can never start: what JobSet and the API server accept, and the kubelet or the container then ends at.

What an API server says of a pod or a Job is not repeated: a dry run asks it. On a TrainJob a finding is at the field
that the TrainJob wrote, else at its runtime. The JobSet that Trainer makes is not checked again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.checks import amounts, fields, jobset_policies, node_fits, startups, volume_checks
from muster.strategies.documents import decoding, loose, model, names, paths, pods
from muster.strategies.documents.findings import Finding, Severity, error
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, list_templates, placed
from muster.strategies.launches import endless

__all__ = ["check_pods"]

_MEMBERS = ("containers", "initContainers")
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
        yield from _of_container(job, None, (), startups.Start({}, {}, job.raw_trainer))
    for finding in jobset_policies.check(job, templates):
        yield placed(job, finding)
    yield from volume_checks.check(job, templates)
    for inside, value, message in fields.unnamed(job.raw_trainer) if job.kind == "TrainJob" else ():
        yield error(paths.field(job.document, ("spec", "trainer", *inside)), value, message, rule="core/object-name")


def _of_template(job: Job, template: Template) -> Iterator[Finding]:
    spec = template.raw_spec
    for inside, container in _containers(spec):
        resources = container.get("resources")
        for problem in amounts.check(resources) if resources else ():
            yield _of_resources(job, template, inside, problem)
        mine = _is_mine(job, template) and inside[0] == "containers" and container.get("name") == names.CONTAINER_NODE
        yield from _of_container(
            job, template, inside, startups.Start(spec, container, job.raw_trainer if mine else {})
        )
    every = itertools.chain(
        _claims(spec), _of_pod(job, template), node_fits.faults(template), fields.faults(job, template)
    )
    for inside, value, message, rule, severity in every:
        yield placed(job, Finding(severity, template.field(*inside), value, message, rule))


def _of_container(job: Job, template: Template | None, inside: Path, start: startups.Start) -> Iterator[Finding]:
    """Report what keeps a container from its start; what `spec.trainer` wrote is reported there."""
    for place, value, message, rule, severity in startups.faults(start):
        if start.own.get(str(place[0])) is not None:
            field = paths.field(job.document, ("spec", "trainer", *place))
            yield Finding(severity, field, value, message, rule)
        elif template is not None:
            yield placed(job, Finding(severity, template.field(*inside, *place), value, message, rule))


def _is_mine(job: Job, template: Template) -> bool:
    """Whether `spec.trainer` writes a container of a replicated job."""
    return job.kind == "TrainJob" and job.container is not None and template.path == job.container.job_path


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for member in _MEMBERS:
        for index, container in enumerate(spec.get(member) or ()):
            yield (member, index), container


def _of_pod(job: Job, template: Template) -> Iterator[_Fault]:
    """Judge the user of a pod, and its init containers."""
    spec, reader = template.raw_spec, endless.of_job(job)
    if startups.is_root(loose.mapping(spec.get("securityContext"))):
        yield ("securityContext", "runAsUser"), 0, startups.ROOT, "core/security-context", Severity.ERROR
    for index, container in enumerate(loose.items(spec, "initContainers")):
        own = decoding.read(container, model.Container)
        if own.restart_policy != "Always" and reader.never_ends(own.argv):
            message = (
                "never ends, and the other containers start when this init container has ended, so that the pod never "
                "starts; write restartPolicy: Always, which makes it run beside them"
            )
            place: Path = ("initContainers", index, "command")
            yield place, container.get("name"), message, "core/endless-init", Severity.ERROR


def _claims(spec: Mapping[str, Any]) -> Iterator[_Fault]:
    """Compare the claims of containers with those of the pod (validateResourceClaimNames)."""
    held = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        if len([member for member in pods.CLAIM_SOURCES if claim.get(member) is not None]) != 1:
            message = "needs either resourceClaimName or resourceClaimTemplateName, or the API server refuses the pod"
            yield ("resourceClaims", index), claim.get("name"), message, "core/claim-source", Severity.ERROR
    for inside, container in _containers(spec):
        for index, claim in enumerate((container.get("resources") or {}).get("claims") or ()):
            if claim.get("name") not in held:
                message = "the pod has no claim of this name, so the API server refuses it; add it to resourceClaims"
                yield (
                    (*inside, "resources", "claims", index, "name"),
                    claim.get("name"),
                    message,
                    "core/claim-name",
                    Severity.ERROR,
                )


def _of_resources(job: Job, template: Template, inside: Path, problem: amounts.Problem) -> Finding:
    """Return the finding about an amount: at `resourcesPerNode` where the TrainJob wrote that amount."""
    own = _own_part(job, template, inside, problem.path)
    if own:
        field = f"spec.trainer.resourcesPerNode.{own}" + "".join(f"[{name}]" for name in problem.path[1:])
        return Finding(problem.severity, field, problem.value, problem.message, problem.rule)
    field = template.field(*inside, "resources", *problem.path)
    return placed(job, Finding(problem.severity, field, problem.value, problem.message, problem.rule))


def _own_part(job: Job, template: Template, inside: Path, path: tuple[str, ...]) -> str:
    """Return the member of `resourcesPerNode` that holds the resource, "" where the runtime alone asks for it."""
    override: Mapping[str, Any] = job.raw_trainer.get("resourcesPerNode") or {}
    if not _is_mine(job, template) or template.raw_spec[str(inside[0])][inside[1]].get("name") != names.CONTAINER_NODE:
        return ""
    parts = (path[0], *(part for part in ("limits", "requests") if part != path[0]))
    return next((part for part in parts if override.get(part) and {*path[1:]} <= {*override[part]}), "")
