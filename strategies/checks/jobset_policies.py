"""Policies: rules of a JobSet about success, failure and order that nothing will accept.

JobSet's webhook refuses the JobSet: the person who applies one sees it, and of a TrainJob only its events tell. What an
API server says of the Jobs, a dry run asks. Sources: jobset `pkg/webhooks/jobset_webhook.go` ValidateCreate and
validateFailurePolicy, `pkg/controllers/success_policy.go`: a JobSet with the operator All waits for the end of each
replicated job that its success policy names, and of all when it names none, and a server among them never ends.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import loose, names, paths, pods
from muster.strategies.documents.findings import Finding, error, note, warning
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, find_spec
from muster.strategies.launches import endless
from muster.strategies.trainer import runtime_patches

__all__ = ["check"]

_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_LONGEST = 128
_SUBDOMAIN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL = 63
_GATED = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
_SHOWN = 5
_JOBSET = "so JobSet refuses the job"

_Fault = tuple[Path, Any, str]


def check(job: Job, templates: Sequence[Template]) -> Iterator[Finding]:
    """Check the policies of a JobSet, or of the JobSet that a TrainJob will become.

    Args:
        job: the job as it will be stored.
        templates: its replicated jobs.

    Returns:
        Findings at their places in the JobSet, or in the runtime.
    """
    document, start = find_spec(job)
    spec = paths.lookup(document, start) if start else document
    yield from _gang(job, templates)
    if isinstance(spec, dict):
        called = [each.raw.get("name") for each in templates]
        for inside, value, message in _of_jobset(spec, called):
            yield error(paths.field(document, (*start, *inside)), value, message, rule="core/jobset-policy")
        for inside, value, message in _gated(spec):
            yield warning(paths.field(document, (*start, *inside)), value, message, rule="core/jobset-policy")
    yield from _deleted(templates)
    yield from _endless(spec if isinstance(spec, dict) else {}, templates, endless.of_job(job))


def _deleted(templates: Sequence[Template]) -> Iterator[Finding]:
    """Report Jobs that are deleted when they have ended, and that JobSet then makes again (shouldCreateJob)."""
    alone = len(templates) == 1 and pods.replicas(templates[0].raw) <= 1
    for template in () if alone else templates:
        own = loose.member(template.raw.get("template"), "spec")
        if type(own.get("ttlSecondsAfterFinished")) is int:
            place = (*template.path, "template", "spec", "ttlSecondsAfterFinished")
            message = (
                "deletes a Job that has ended, and JobSet makes it again, and runs it again, as long as the set has "
                "not ended; remove it, or write it into the spec of the JobSet"
            )
            field = template.locate(place)
            yield warning(field, own["ttlSecondsAfterFinished"], message, rule="core/jobset-policy")


def _gang(job: Job, templates: Sequence[Template]) -> Iterator[Finding]:
    """Report a gang of all pods, of which some are made when others have ended.

    Trainer counts the pods of all replicated jobs (`plugins/coscheduling`, `plugins/volcano`), and the scheduler
    starts none before as many exist (scheduler-plugins `pkg/coscheduling/core/core.go` PreFilter).
    """
    if job.kind != "TrainJob" or job.runtime is None:
        return
    policy = loose.mapping(job.runtime.document.get("spec")).get("podGroupPolicy")
    gang = next((each for each in _GANGS if loose.mapping(policy).get(each) is not None), None)
    if gang == "volcano" and paths.lookup(job.runtime.document, _QUEUE) == "":  # plugins/volcano/volcano.go Validate
        patched = runtime_patches.find(job.runtime, _QUEUE)
        where = paths.field(job.runtime.document, _QUEUE) if patched is None else paths.field(job.document, patched)
        message = "is not the name of a queue, so Trainer refuses the job; write one, or remove it"
        yield error(where, "", message, rule="core/gang")
    for template in templates if gang else ():
        for index, item in enumerate(loose.sequence(template.raw.get("dependsOn"))):
            if isinstance(item, dict) and item.get("status") == "Complete":
                message = (
                    f"{gang} starts no pod before all of them exist, and these are made when {item.get('name')} has "
                    "ended, so that the job never starts; remove podGroupPolicy, or dependsOn"
                )
                place = template.locate((*template.path, "dependsOn", index))
                yield error(place, item.get("name"), message, rule="core/gang")
                return


_GANGS = ("coscheduling", "volcano")
_QUEUE: Path = ("spec", "template", "metadata", "annotations", "scheduling.volcano.sh/queue-name")


def _of_jobset(spec: Mapping[str, Any], called: Sequence[Any]) -> Iterator[_Fault]:
    held = {each for each in called if isinstance(each, str)}
    for index, name in enumerate(loose.sequence(loose.mapping(spec.get("successPolicy")).get("targetReplicatedJobs"))):
        if isinstance(name, str) and name not in held:
            yield ("successPolicy", "targetReplicatedJobs", index), name, _nobody(called)
    yield from _order(spec, held)
    yield from _coordinator(spec)
    yield from _network(spec)
    if spec.get("volumeClaimPolicies"):
        yield from _templates(spec["volumeClaimPolicies"])
    if spec.get("failurePolicy"):
        yield from _failures(loose.mapping(spec["failurePolicy"]), held, called)


def _nobody(called: Sequence[Any]) -> str:
    return f"no replicated job has this name, {_JOBSET}; use {' or '.join(map(str, called[:_SHOWN])) or 'one of them'}"


def _order(spec: Mapping[str, Any], held: set[str]) -> Iterator[_Fault]:
    """Check `dependsOn`, which names replicated jobs that stand before."""
    earlier: dict[str, None] = {}
    in_order = loose.mapping(spec.get("startupPolicy")).get("startupPolicyOrder") == "InOrder"
    for index, each in enumerate(spec.get("replicatedJobs") or ()):
        depends = each.get("dependsOn")
        if depends and in_order:
            message = f"startupPolicyOrder: InOrder excludes it, {_JOBSET}; remove one of the two"
            yield ("replicatedJobs", index, "dependsOn"), None, message
        if depends and index == 0:
            message = f"the first replicated job waits for no other, {_JOBSET}; put it behind the one that it names"
            yield ("replicatedJobs", index, "dependsOn"), None, message
        for number, item in enumerate(depends if isinstance(depends, list) and index else ()):
            name = item.get("name") if isinstance(item, dict) else None
            if isinstance(name, str) and name not in earlier:
                behind = f"it does not stand before this one, {_JOBSET}; put it before"
                message = behind if name in held else _nobody([*itertools.islice(earlier, _SHOWN)])
                yield ("replicatedJobs", index, "dependsOn", number, "name"), name, message
        if isinstance(each.get("name"), str):
            earlier[each["name"]] = None


def _templates(policies: Any) -> Iterator[_Fault]:
    """Check that no template of a volume claim names a namespace (`api/jobset/v1alpha2/jobset_types.go`)."""
    for index, policy in enumerate(loose.sequence(policies)):
        templates = loose.mapping(policy).get("templates")
        for number, template in enumerate(loose.sequence(templates)):
            namespace = loose.member(template, "metadata").get("namespace")
            if namespace:
                place = ("volumeClaimPolicies", index, "templates", number, "metadata", "namespace")
                yield place, namespace, f"a claim lies where its JobSet does, {_JOBSET}; remove it"


def _coordinator(spec: Mapping[str, Any]) -> Iterator[_Fault]:
    """Check that the pod of `coordinator` exists (validateCoordinator); Trainer sets the numbers that are missing."""
    chosen = spec.get("coordinator")
    if not isinstance(chosen, dict):
        return
    name, jobs = chosen.get("replicatedJob"), spec.get("replicatedJobs") or ()
    job = next((each for each in jobs if each.get("name") == name), None)
    if job is None:
        yield ("coordinator", "replicatedJob"), name, _nobody([each.get("name") for each in jobs])
        return
    own = loose.member(job.get("template"), "spec")
    for member, count in (("jobIndex", job.get("replicas")), ("podIndex", own.get("completions"))):
        index = chosen.get(member)
        if type(index) is int and type(count) is int and index >= count:
            message = f"no pod has this index, which counts from 0, {_JOBSET}; lower it"
            yield ("coordinator", member), index, message


def _network(spec: Mapping[str, Any]) -> Iterator[_Fault]:
    """Check the subdomain, which becomes the name of a Service, and the manager."""
    name = loose.mapping(spec.get("network")).get("subdomain")
    if isinstance(name, str) and name and not (len(name) <= _LABEL and _SUBDOMAIN.fullmatch(name)):
        message = f"begins with a letter and takes small letters, digits and -, up to {_LABEL}, {_JOBSET}; rename it"
        yield ("network", "subdomain"), name, message
    manager = spec.get("managedBy")
    if isinstance(manager, str) and not all(manager.partition("/")):
        message = f"has to be a domain and a path, such as kueue.x-k8s.io/multikueue, {_JOBSET}; correct or remove it"
        yield ("managedBy",), manager, message


def _failures(policy: Mapping[str, Any], held: set[str], called: Sequence[Any]) -> Iterator[_Fault]:
    rules = policy.get("rules")
    seen: set[str] = set()
    for index, rule in enumerate(loose.sequence(rules)):
        place: Path = ("failurePolicy", "rules", index)
        if not isinstance(rule, dict):
            continue
        name = rule.get("name")
        if isinstance(name, str) and name:
            if name in seen:
                yield (*place, "name"), name, f"another rule has this name, {_JOBSET}; rename one"
            elif len(name) > _LONGEST or not _NAME.fullmatch(name):
                message = f"begins with a letter and takes letters, digits, _ , and : alone, {_JOBSET}; rename it"
                yield (*place, "name"), name, message
            seen.add(name)
        for number, reason in _texts(rule, "onJobFailureReasons"):
            if reason not in _REASONS:
                message = f"is not a reason for which a Job fails, {_JOBSET}; use {' or '.join(_REASONS)}"
                yield (*place, "onJobFailureReasons", number), reason, message
        for number, target in _texts(rule, "targetReplicatedJobs"):
            if target not in held:
                yield (*place, "targetReplicatedJobs", number), target, _nobody(called)


def _gated(spec: Mapping[str, Any]) -> Iterator[_Fault]:
    """Yield what JobSet takes only behind feature gates that are off (`pkg/features/features.go`)."""
    policy = loose.mapping(spec.get("failurePolicy"))
    rules = policy.get("rules")
    for index, rule in enumerate(loose.sequence(rules)):
        if isinstance(rule, dict) and rule.get("action") in _GATED:
            message = "JobSet refuses it while its feature gate RestartJob is off, as by default; use RestartJobSet"
            yield ("failurePolicy", "rules", index, "action"), rule["action"], message
    if policy.get("restartStrategy") == "InPlaceRestart":
        message = "JobSet refuses it while its feature gate InPlaceRestart is off, as by default; use Recreate"
        yield ("failurePolicy", "restartStrategy"), "InPlaceRestart", message


def _texts(rule: Mapping[str, Any], member: str) -> list[tuple[int, str]]:
    found = rule.get(member)
    return [(n, each) for n, each in enumerate(found) if isinstance(each, str)] if isinstance(found, list) else []


def _endless(spec: Mapping[str, Any], templates: Sequence[Template], reader: endless.Reader) -> Iterator[Finding]:
    """Report a replicated job that never ends and that a JobSet waits for, beside one that may end.

    Args:
        spec: of the JobSet.
        templates: its replicated jobs.
        reader: says which containers never end.
    """
    policy = loose.mapping(spec.get("successPolicy"))
    targets = policy.get("targetReplicatedJobs")
    named = set(map(str, targets)) if isinstance(targets, list) else set()
    if policy.get("operator", "All") != "All" or len(templates) < 2:
        return
    waiting = {index for index, each in enumerate(templates) if _never_ends(each, reader)}
    if len(waiting) == len(templates):
        return
    # By its name alone, the launcher of MPI may be another program than a training, and end the daemons of its nodes.
    runtime = templates[0].runtime
    daemons = runtime is not None and runtime.ml_policy.get("mpi") is not None and runtime.is_unlabelled
    for index in sorted(waiting):
        name = templates[index].raw.get("name")
        if not named or name in named:
            message = (
                "never ends, and the set is complete only when this replicated job has ended too, so that it keeps its "
                "devices for ever; name the training in successPolicy.targetReplicatedJobs"
            )
            place = templates[index].locate((*templates[index].path, "name"))
            yield (note if daemons and name == names.CONTAINER_NODE else warning)(
                place, name, message, rule="core/endless-part"
            )


def _never_ends(template: Template, reader: endless.Reader) -> bool:
    return any(reader.never_ends(each.argv) for each in template.pod.containers)
