"""Pods that can never start: what JobSet and the API server accept, and the kubelet or the container then ends at.

What an API server says of a pod or a Job is not repeated: a dry run asks it. On a TrainJob a finding is at the field
that the TrainJob wrote, else at its runtime. The JobSet that Trainer makes is not checked again.

Fields: names of labels, variables and objects that the kubelet never finds, so that it waits or fills in nothing.

Kubernetes takes a missing label for an empty text (kubernetes `pkg/fieldpath/fieldpath.go`
ExtractFieldPathAsString). Only names in the domains of the Job controller and of JobSet are judged: what these two give
to pods is known (`api/batch/v1/types.go`; jobset `pkg/controllers/jobset_controller.go` labelAndAnnotateObject,
`api/jobset/v1alpha2/jobset_types.go`). No ConfigMap, Secret or claim has a name that its own validation refuses
(kubernetes `pkg/apis/core/validation/validation.go` ValidateConfigMapName).

Amounts: devices of a container that no pod ever gets, and memory in which nothing starts.

What an API server says itself of other resources is not repeated. Source: kubernetes
`pkg/apis/core/validation/validation.go` validateResourceRequirements and validateContainerResourceName.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from muster.strategies.checks import jobset_policies, role_checks, startups, volume_checks
from muster.strategies.documents import names, paths, quantities
from muster.strategies.documents.findings import Finding, Severity, error
from muster.strategies.documents.model import (
    Amounts,
    Container,
    EnvVar,
    EnvVarSource,
    PodSpec,
    Resources,
    Trainer,
    Volume,
)
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, list_templates, placed
from muster.strategies.launches import pod_endings
from muster.strategies.platform import devices

__all__ = ["Fault", "Problem", "check_amounts", "check_pods", "faults", "unnamed"]


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
    for inside, value, message in unnamed(job.trainer.env) if job.kind == "TrainJob" else ():
        yield error(paths.field(job.document, ("spec", "trainer", *inside)), value, message, rule="core/object-name")


def _of_template(job: Job, template: Template) -> Iterator[Finding]:
    for inside, container in template.containers:
        mine = _is_mine(job, template) and container.name == names.CONTAINER_NODE
        for problem in check_amounts(container.resources):
            yield _of_resources(job, template, inside, problem, is_mine=mine)
        own = job.trainer if mine and inside[0] == "containers" else Trainer()
        yield from _of_container(job, template, inside, startups.Start(template.pod, container, own))
    every = itertools.chain(
        _claims(template), _of_pod(job, template), role_checks.faults(job, template), faults(job, template)
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
    reader = pod_endings.of_job(job)
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


def _of_resources(job: Job, template: Template, inside: Path, problem: Problem, *, is_mine: bool) -> Finding:
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


Fault = tuple[Path, Any, str, str, Severity]
"""Place inside the pod spec, value, message, rule and severity."""

_BATCH, _JOBSET, _FORMER = "batch.kubernetes.io/", "jobset.sigs.k8s.io/", "jobset.x-k8s.io/"
_OF_BATCH = (
    *("job-name", "controller-uid", "job-completion-index", "cronjob-scheduled-timestamp"),
    *("job-index-failure-count", "job-index-ignored-failure-count"),
)
_OF_JOBSET = (
    *("jobset-name", "jobset-uid", "replicatedjob-name", "replicatedjob-replicas", "global-replicas", "job-index"),
    *("job-global-index", "job-key", "coordinator", "group-name", "group-replicas", "job-group-index"),
    *("restart-attempt", "job-restart-attempt", "in-place-restart-attempt", "disable-in-place-restart"),
)
_GIVEN = frozenset({*(_BATCH + each for each in _OF_BATCH), *(_JOBSET + each for each in _OF_JOBSET)})
_KEYED = ("metadata.labels['", "metadata.annotations['")


def faults(job: Job, template: Template) -> Iterator[Fault]:
    """Yield what the kubelet never finds for the containers and volumes of one pod."""
    for index, volume in enumerate(template.pod.volumes):
        for place, name in _of_volume(volume):
            yield ("volumes", index, *place), name, _UNNAMED, "core/object-name", Severity.ERROR
    for inside, container in template.containers:
        found = [(*each, "core/object-name", Severity.ERROR) for each in unnamed(container.env)]
        found += _of_fields(template, container) if job.kind == "JobSet" else ()
        for place, value, message, rule, severity in found:
            yield (*inside, *place), value, message, rule, severity


def _of_fields(template: Template, container: Container) -> Iterator[Fault]:
    for number, name in _unfilled(container):
        message = "the container has no variable of this name, so the kubelet never starts it; add it to env"
        yield ("volumeMounts", number, "subPathExpr"), name, message, "core/sub-path", Severity.ERROR
    for number, key in _unknown(container.env):
        meta = (template.job.template.spec.template.metadata, template.job.template.metadata)
        if not any(key in each.labels or key in each.annotations for each in meta):
            message = (
                "neither Kubernetes nor JobSet gives it to pods, so the variable is empty; "
                f"use {_near(key)}, or write it into the labels of the pod template"
            )
            place: Path = ("env", number, "valueFrom", "fieldRef", "fieldPath")
            yield place, key, message, "core/unset-field", Severity.WARNING


def unnamed(env: Sequence[EnvVar]) -> Iterator[tuple[Path, Any, str]]:
    """Yield the names in `env` that no ConfigMap and no Secret can have."""
    for index, entry in enumerate(env):
        source = entry.value_from or EnvVarSource()
        for kind, ref in (("configMapKeyRef", source.config_map_key_ref), ("secretKeyRef", source.secret_key_ref)):
            if ref is not None and not ref.optional and _is_wrong(ref.name):
                yield ("env", index, "valueFrom", kind, "name"), ref.name, _UNNAMED


def _of_volume(volume: Volume) -> Iterator[tuple[Path, str]]:
    """Yield the names in a volume that no object can have."""
    claim, files, secret = volume.persistent_volume_claim, volume.config_map, volume.secret
    if claim is not None and _is_wrong(claim.claim_name):
        yield ("persistentVolumeClaim", "claimName"), claim.claim_name
    if files is not None and not files.optional and _is_wrong(files.name):
        yield ("configMap", "name"), files.name
    if secret is not None and not secret.optional and _is_wrong(secret.secret_name):
        yield ("secret", "secretName"), secret.secret_name


_LONGEST_NAME = 253
_OF_OBJECTS = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
"""The name of a ConfigMap, a Secret, a claim and most other objects (apimachinery IsDNS1123Subdomain)."""


def _is_wrong(name: str) -> bool:
    return bool(name) and (len(name) > _LONGEST_NAME or re.fullmatch(_OF_OBJECTS, name) is None)


_UNNAMED = (
    "no object has a name of other than small letters, digits, - and ., so the containers wait for it for ever; "
    "correct it"
)


def _unfilled(container: Container) -> Iterator[tuple[int, str]]:
    """Yield the variables in the paths of mounts that nothing sets (kubelet ExpandContainerVolumeMounts)."""
    if container.env_from or not any(each.sub_path_expr for each in container.volume_mounts):
        return
    known = {entry.name for entry in container.env} | _GIVEN_BY_KUBERNETES
    for index, mount in enumerate(container.volume_mounts):
        for name in re.findall(_REFERENCE, mount.sub_path_expr[:_LONGEST]):
            if name not in known and "_SERVICE_" not in name and "_PORT" not in name:
                yield index, name


_GIVEN_BY_KUBERNETES = {"JOB_COMPLETION_INDEX"}  # and what it gives of Services
_REFERENCE = r"(?<!\$)\$\(([A-Za-z_][\w.-]*)\)"
_LONGEST = 4096


def _unknown(env: Sequence[EnvVar]) -> Iterator[tuple[int, str]]:
    """Yield the entries that name a key of these domains which nobody gives."""
    for index, entry in enumerate(env):
        reference = entry.value_from.field_ref if entry.value_from is not None else None
        path = reference.field_path if reference is not None else ""
        if path not in _USUAL and path.startswith(_KEYED) and path.endswith("']"):
            key = path.partition("['")[2][:-2]
            if key not in _GIVEN and key.startswith((_BATCH, _JOBSET, _FORMER)):
                yield index, key


_USUAL = frozenset(f"{start}{key}']" for start in _KEYED for key in _GIVEN)


def _near(key: str) -> str:
    """Return what may be meant: the key of the same name in the right domain, else the index of the pod."""
    name = key.partition("/")[2]
    return next((each for each in sorted(_GIVEN) if each.endswith(f"/{name}")), f"{_BATCH}job-completion-index")


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


def check_amounts(resources: Resources) -> Iterator[Problem]:
    """Check the resources of one container, as the pod gets them; an amount that is not a quantity is left out."""
    limits, requests = resources.limits, resources.requests
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
    yield from _wishes(resources)


def _of_devices(name: str, limits: Amounts, requests: Amounts) -> Iterator[Problem]:
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


def _read(amount: float | str) -> Fraction | None:
    try:
        return Fraction(quantities.exact(amount))
    except ValueError:
        return None  # the API server says so at once


def _wishes(resources: Resources) -> Iterator[Problem]:
    """Warn about what is accepted and that hardly any node can give."""
    for name, amount in resources.limits.items():
        near = devices.misspelt(name)
        if near:
            message = f"no device plugin is known to offer this, and the pods would wait for ever; {near} may be meant"
            yield Problem(Severity.WARNING, ("limits", name), amount, message, "core/unknown-device")
        elif devices.is_replica(name) and quantities.count(amount) > 1:
            message = "replicas of a shared GPU may all be the same GPU, and NCCL refuses two ranks on one; ask for 1"
            yield Problem(Severity.WARNING, ("limits", name), amount, message, "core/shared-device")
    if sum("/" in name for name in resources.limits) < 2:
        return
    makers = devices.makers(resources)
    if len(makers) > 1:
        message = (
            f"the pod gets devices of {' and '.join(makers)}, and hardly any node has both; ask for those of one "
            "vendor (Trainer adds resourcesPerNode to the resources of the runtime)"
        )
        yield Problem(Severity.WARNING, ("limits",), None, message, "core/two-vendors")
