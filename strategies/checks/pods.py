"""Pods that can never start: what JobSet accepts, and the API server refuses when the Jobs or their pods are made.

Nobody sees that refusal: the TrainJob and its JobSet exist, and no pod does. Sources: kubernetes v1.36.3
`pkg/apis/core/validation/validation.go` and `pkg/apis/batch/validation/validation.go`, jobset
`pkg/webhooks/jobset_webhook.go`, which looks at none of this.

On a TrainJob a finding is at the field that the TrainJob wrote, else at its runtime. The JobSet that Trainer makes is
not checked again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.checks import (
    amounts,
    containers,
    fields,
    hosts,
    images,
    kueue,
    members,
    policies,
    programs,
    readonly,
    scheduling,
    surroundings,
    users,
    volumes,
)
from muster.strategies.documents import labels, loose, names, paths, pods
from muster.strategies.documents.findings import Finding, Severity, error
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, list_templates, placed
from muster.strategies.launches import endless, launches
from muster.strategies.launches.launches import Launcher

__all__ = ["check_pods"]

_MEMBERS = ("containers", "initContainers")
_RESTARTS = ("OnFailure", "Never")
_MOST = 50  # an object may have a hundred thousand names, and nobody reads more of them
_POD_LEVEL = ("cpu", "memory")


def check_pods(job: Job) -> Iterator[Finding]:
    """Check all pods of a JobSet, or of the JobSet that a TrainJob will become; the first 50 findings."""
    return iter(()) if job.owner is not None else itertools.islice(_found(job), _MOST)


def _found(job: Job) -> Iterator[Finding]:
    templates = list(list_templates(job))
    for template in templates:
        yield from _of_template(job, template)
    for finding in policies.check(job, templates):
        yield placed(job, finding)
    yield from kueue.check(job, templates)
    if job.kind == "TrainJob":
        yield from _of_trainjob(job)
    yield from volumes.check(job, templates)


def _of_template(job: Job, template: Template) -> Iterator[Finding]:
    spec = template.spec
    for inside, container in _containers(spec):
        resources = container.get("resources")
        for problem in amounts.check(resources) if resources else ():
            yield _of_resources(job, template, inside, problem)
    for inside, value, message, rule in (*_claims(spec), *_restarts(template, spec), *_pod_resources(spec)):
        yield placed(job, error(template.field(*inside), value, message, rule=rule))
    judges = (scheduling.faults, containers.faults, members.faults, surroundings.faults)
    found = itertools.chain.from_iterable(judge(spec) for judge in judges)
    for inside, value, message, rule in itertools.chain(found, members.endless_init(spec, endless.of_job(job))):
        yield placed(job, error(template.field(*inside), value, message, rule=rule))
    for inside, value, message, severity in hosts.faults(template):
        yield placed(job, Finding(severity, template.field(*inside), value, message, "core/no-node"))
    yield from fields.check(job, template)
    yield from _labels(job, template)
    for inside, command in _commands(job, template):
        if _is_one_word(command):
            yield placed(job, Finding(Severity.ERROR, template.field(*inside), command[0], *_ONE_WORD))
    for inside, value, message in _names(spec):
        yield placed(job, error(template.field(*inside), value, message, rule="core/name"))
    yield from _programs(job, template)


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for member in _MEMBERS:
        for index, container in enumerate(spec.get(member) or ()):
            yield (member, index), container


def _of_trainjob(job: Job) -> Iterator[Finding]:
    """Check what a TrainJob itself writes into the containers: its command and its env."""
    command = job.trainer.get("command")
    if command and _is_one_word(command):
        yield Finding(Severity.ERROR, "spec.trainer.command[0]", command[0], *_ONE_WORD)
    wrong = images.wrong(str(job.trainer.get("image") or ""))
    if wrong:
        message = f"the kubelet never starts this container: {wrong}"
        yield error("spec.trainer.image", job.trainer["image"], message, rule="core/image")
    for inside, value, message, rule in containers.environment(job.trainer.get("env") or ()):
        yield error(paths.field(job.document, ("spec", "trainer", "env", *inside)), value, message, rule=rule)


_Fault = tuple[Path, Any, str, str]
_ONE_WORD = (
    "is the name of one program for the kernel, and there is none of this name; write each word as an entry of its own",
    "core/command-word",
)
_LONGEST = 200  # characters of a command's first word that are looked at


def _commands(job: Job, template: Template) -> Iterator[tuple[Path, Sequence[str]]]:
    """Yield the commands of the containers, but not the one that a TrainJob replaces."""
    replaced = job.kind == "TrainJob" and job.trainer.get("command") is not None and job.container is not None
    for inside, container in _containers(template.spec):
        mine = replaced and job.container is not None and container is job.container.container
        if container.get("command") and not mine:
            yield (*inside, "command", 0), container["command"]


def _is_one_word(command: Sequence[str]) -> bool:
    """Tell whether a command begins with a launcher, an interpreter or a shell and its arguments in one word."""
    words = command[0][:_LONGEST].split()
    if len(words) < 2 or words[0] == command[0]:
        return False
    return launches.parse(tuple(words)).launcher not in (Launcher.OTHER, Launcher.NONE)


def _programs(job: Job, template: Template) -> Iterator[Finding]:
    """Check the command lines of the containers; on a TrainJob that of its training has the words of the TrainJob."""
    pod = template.spec
    volumes_of = programs.Volumes(loose.items(pod, "volumes"))
    for (member, index), container in _containers(template.spec):
        mine = job.container is not None and template.path == job.container.job_path
        mine = mine and container.get("name") == names.CONTAINER_NODE and job.kind == "TrainJob"
        own = job.trainer if mine else {}
        command = own.get("command") if own.get("command") is not None else container.get("command")
        args = own.get("args") if own.get("args") is not None else container.get("args")
        if _is_secured(pod, container):
            yield from _root_image(job, template, (member, index), users.context_of(pod, container), own)
        if not command:
            continue
        mounts = loose.items(container, "volumeMounts")
        context = container.get("securityContext")
        if context and isinstance(context, dict) and context.get("readOnlyRootFilesystem") is True:
            yield from _read_only(job, template, (member, index), ([*command, *(args or ())], own, mounts))
        found = list(programs.check([*command, *(args or ())], volumes_of, mounts))
        if mounts and _is_secured(pod, container):
            context = users.context_of(pod, container)
            word_and_why = users.unreadable(context, [*command, *(args or ())], volumes_of, mounts)
            found += [(*word_and_why, "core/unreadable-file", False)] if word_and_why else []
        for place, message, rule, certain in found:
            part, number = ("command", place) if place < len(command) else ("args", place - len(command))
            word = [*command, *(args or ())][place]
            severity = Severity.ERROR if certain else Severity.WARNING
            if mine and own.get(part) is not None:
                yield Finding(severity, f"spec.trainer.{part}[{number}]", word, message, rule)
            else:
                yield placed(job, Finding(severity, template.field(member, index, part, number), word, message, rule))


def _is_secured(pod: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    return "securityContext" in container or "securityContext" in pod


def _root_image(
    job: Job, template: Template, inside: Path, context: Mapping[str, Any], own: Mapping[str, Any]
) -> Iterator[Finding]:
    image = own.get("image") or _container(template, inside).get("image")
    message = users.root_image(context, image)
    if message and own.get("image"):
        yield Finding(Severity.WARNING, "spec.trainer.image", image, message, "core/root-image")
    elif message:
        finding = Finding(Severity.WARNING, template.field(*inside, "image"), image, message, "core/root-image")
        yield placed(job, finding)


def _read_only(
    job: Job,
    template: Template,
    inside: Path,
    around: tuple[Sequence[str], Mapping[str, Any], Sequence[Mapping[str, Any]]],
) -> Iterator[Finding]:
    """Report a root that cannot be written where torchrun needs a folder; `around` is what the container has."""
    container = _container(template, inside)
    argv, own, mounts = around
    env = [*(container.get("env") or ()), *(own.get("env") or ())]
    message = readonly.wrong(container, argv, env, mounts, loose.items(template.spec, "volumes"))
    if message:
        field = template.field(*inside, "securityContext", "readOnlyRootFilesystem")
        yield placed(job, Finding(Severity.WARNING, field, True, message, "core/read-only-root"))


def _names(spec: Mapping[str, Any]) -> Iterator[tuple[Path, Any, str]]:
    """Check the names of containers, ports and volumes (validateContainers, ValidatePortNumOrName, ValidateVolumes)."""
    for index, volume in enumerate(loose.items(spec, "volumes")):
        if isinstance(volume.get("name"), str) and not _is_label(volume["name"], _LABEL):
            yield ("volumes", index, "name"), volume["name"], _NO_LABEL
    begun = {each.get("name") for each in loose.items(spec, "containers")} if spec.get("initContainers") else set()
    for inside, container in _containers(spec):
        if isinstance(container.get("name"), str) and not _is_label(container["name"], _LABEL):
            yield (*inside, "name"), container["name"], _NO_LABEL
        elif inside[0] == "initContainers" and isinstance(container.get("name"), str) and container["name"] in begun:
            yield (*inside, "name"), container["name"], _TAKEN
        for index, port in enumerate(loose.items(container, "ports")):
            name = port.get("name")
            if isinstance(name, str) and name and not _is_port(name):
                yield (*inside, "ports", index, "name"), name, _NO_PORT


def _labels(job: Job, template: Template) -> Iterator[Finding]:
    """Check the labels of the pods and of their Jobs (ValidateLabels)."""
    for written, path in template.metadata("labels"):
        for key, value in written.items():
            right = labels.is_key(key) and (not isinstance(value, str) or labels.is_value(value))
            if not right:
                message = (
                    "is not a valid label: keys and values have letters, digits, - _ and . alone, up to 63; correct it"
                )
                yield placed(job, error(template.locate((*path, key)), value, message, rule="core/label"))
    if template.is_annotated:
        yield from _annotations(job, template)


def _annotations(job: Job, template: Template) -> Iterator[Finding]:
    """Check the keys of the annotations of the pods and of their Jobs (ValidateAnnotations)."""
    for written, path in template.metadata("annotations"):
        for key, value in written.items():
            if not labels.is_key(key.lower()):
                message = "is not the key of an annotation: letters, digits, -, _ and ., or DOMAIN/ before; correct it"
                field = template.locate((*path, key))
                yield placed(job, error(field, value, message, rule="core/label"))


def _is_label(name: str, longest: int) -> bool:
    return len(name) <= longest and _DNS.fullmatch(name) is not None


def _is_port(name: str) -> bool:
    """Whether a name is one of a port (IsValidPortName): a short label with a letter, and without `--`."""
    return _is_label(name, _PORT) and "--" not in name and not name.replace("-", "").isdecimal()


_DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL, _PORT = 63, 15
_NO_LABEL = "takes up to 63 lower case letters, digits and -, so the API server refuses the pod; correct it"
_TAKEN = "is the name of another container of the pod, so the API server refuses it; rename one"
_NO_PORT = "takes up to 15 lower case letters, digits and single -, so the API server refuses the pod; shorten it"


def _claims(spec: Mapping[str, Any]) -> Iterator[_Fault]:
    """Compare the claims of containers with those of the pod (validateResourceClaimNames)."""
    held = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        if len([member for member in pods.CLAIM_SOURCES if claim.get(member) is not None]) != 1:
            message = "needs either resourceClaimName or resourceClaimTemplateName, or the API server refuses the pod"
            yield ("resourceClaims", index), claim.get("name"), message, "core/claim-source"
    for inside, container in _containers(spec):
        for index, claim in enumerate((container.get("resources") or {}).get("claims") or ()):
            if claim.get("name") not in held:
                message = "the pod has no claim of this name, so the API server refuses it; add it to resourceClaims"
                yield (*inside, "resources", "claims", index, "name"), claim.get("name"), message, "core/claim-name"


def _restarts(template: Template, spec: Mapping[str, Any]) -> Iterator[_Fault]:
    """Check what a Job takes: a missing policy becomes OnFailure by JobSet's defaults."""
    policy = spec.get("restartPolicy")
    if policy not in (None, "", *_RESTARTS):
        message = "a Job takes only OnFailure or Never, so the API server refuses it; use one of them"
        yield ("restartPolicy",), policy, message, "core/restart-policy"
    elif policy != "Never" and _job_spec(template).get("podFailurePolicy") is not None:
        message = "a Job with a podFailurePolicy takes only Never, so the API server refuses it; write Never"
        yield ("restartPolicy",), policy, message, "core/restart-policy"
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and deadline < 1:
        message = "must be at least 1, so the API server refuses the pod; raise it or remove it"
        yield ("activeDeadlineSeconds",), deadline, message, "core/deadline"


def _pod_resources(spec: Mapping[str, Any]) -> Iterator[_Fault]:
    """Check resources of the whole pod, which can be only cpu, memory and huge pages (validatePodResourceName)."""
    resources = spec.get("resources") or {}
    for part in ("limits", "requests"):
        for name, amount in (resources.get(part) or {}).items():
            if name not in _POD_LEVEL and not name.startswith("hugepages-"):
                message = "a pod's own resources are only cpu, memory and hugepages; ask for it in a container"
                yield ("resources", part, name), amount, message, "core/resource-name"


def _container(template: Template, inside: Path) -> Mapping[str, Any]:
    member, index = inside
    found: Mapping[str, Any] = template.spec[str(member)][index]
    return found


def _job_spec(template: Template) -> Mapping[str, Any]:
    return (template.job.get("template") or {}).get("spec") or {}


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
    override: Mapping[str, Any] = job.trainer.get("resourcesPerNode") or {}
    if job.kind != "TrainJob" or _container(template, inside).get("name") != names.CONTAINER_NODE:
        return ""
    if job.container is None or template.path != job.container.job_path:
        return ""
    parts = (path[0], *(part for part in ("limits", "requests") if part != path[0]))
    return next((part for part in parts if override.get(part) and {*path[1:]} <= {*override[part]}), "")
