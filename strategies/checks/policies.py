"""Policies: rules of a JobSet and its Jobs about success, failure and order that nothing will accept.

JobSet's webhook refuses the JobSet: the person who applies one sees it, and of a TrainJob only its events tell. The API
server refuses the Jobs that JobSet makes, and then nobody sees it. Sources: jobset
`pkg/webhooks/jobset_webhook.go` ValidateCreate and validateFailurePolicy; kubernetes v1.36.3
`pkg/apis/batch/validation/validation.go` validateJobSpec and validatePodFailurePolicy.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.checks import successes
from muster.strategies.documents import loose, paths, pods
from muster.strategies.documents.findings import Finding, error, warning
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
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_INDEXED = "Indexed"
_LIMITS = frozenset(
    {"parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"}
    | {"backoffLimitPerIndex", "maxFailedIndexes"}
)
_JUDGED = _LIMITS | {"completionMode", "podFailurePolicy", "successPolicy", "selector"}
_OF_INDEXES = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
_SHOWN = 5
_JOBSET = "so JobSet refuses the job"
_REFUSED = "so the API server refuses the Job"

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
        names = [each.job.get("name") for each in templates]
        for inside, value, message in _of_jobset(spec, names):
            yield error(paths.field(document, (*start, *inside)), value, message, rule="core/jobset-policy")
        for inside, value, message in _gated(spec):
            yield warning(paths.field(document, (*start, *inside)), value, message, rule="core/jobset-policy")
    for template in templates:
        own = loose.member(template.job.get("template"), "spec")
        for inside, value, message in () if _JUDGED.isdisjoint(own) else _of_job(own, template.spec):
            place = (*template.path, "template", "spec", *inside)
            yield error(template.locate(place), value, message, rule="core/job-policy")
    yield from _deleted(templates)
    yield from successes.check(spec if isinstance(spec, dict) else {}, templates, endless.of_job(job))


def _deleted(templates: Sequence[Template]) -> Iterator[Finding]:
    """Report Jobs that are deleted when they have ended, and that JobSet then makes again (shouldCreateJob)."""
    alone = len(templates) == 1 and pods.replicas(templates[0].job) <= 1
    for template in () if alone else templates:
        own = loose.member(template.job.get("template"), "spec")
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
        for index, item in enumerate(loose.sequence(template.job.get("dependsOn"))):
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


def _of_jobset(spec: Mapping[str, Any], names: Sequence[Any]) -> Iterator[_Fault]:
    held = {each for each in names if isinstance(each, str)}
    for index, name in enumerate(loose.sequence(loose.mapping(spec.get("successPolicy")).get("targetReplicatedJobs"))):
        if isinstance(name, str) and name not in held:
            yield ("successPolicy", "targetReplicatedJobs", index), name, _nobody(names)
    yield from _order(spec, held)
    yield from _coordinator(spec)
    yield from _network(spec)
    if spec.get("volumeClaimPolicies"):
        yield from _templates(spec["volumeClaimPolicies"])
    if spec.get("failurePolicy"):
        yield from _failures(loose.mapping(spec["failurePolicy"]), held, names)


def _nobody(names: Sequence[Any]) -> str:
    return f"no replicated job has this name, {_JOBSET}; use {' or '.join(map(str, names[:_SHOWN])) or 'one of them'}"


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


def _failures(policy: Mapping[str, Any], held: set[str], names: Sequence[Any]) -> Iterator[_Fault]:
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
                yield (*place, "targetReplicatedJobs", number), target, _nobody(names)


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


def _of_job(spec: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[_Fault]:
    for name in spec:
        if name in _LIMITS and type(spec[name]) is int and spec[name] < 0:
            yield (name,), spec[name], f"is below 0, {_REFUSED}; raise it"
    yield from _of_indexes(spec)
    if spec.get("maxFailedIndexes") is not None:
        yield from _failed_indexes(spec)
    if spec.get("selector") is not None and spec.get("manualSelector") is not True:
        yield ("selector",), None, f"a Job selects its pods by itself, {_REFUSED}; remove it"
    if spec.get("podFailurePolicy") is not None:
        yield from _pod_failures(spec, pod)


def _of_indexes(spec: Mapping[str, Any]) -> Iterator[_Fault]:
    mode = spec.get("completionMode") or _INDEXED  # JobSet's default
    if mode not in (_INDEXED, "NonIndexed"):
        yield ("completionMode",), mode, f"is not Indexed or NonIndexed, {_REFUSED}; use one of them"
    elif mode != _INDEXED:
        for name in _OF_INDEXES:
            if spec.get(name) is not None:
                yield (name,), None, f"needs completionMode: Indexed, {_REFUSED}; write it, or remove this"
    elif spec.get("successPolicy") is not None:
        for inside, value, message in successes.faults(spec["successPolicy"], spec.get("completions")):
            yield ("successPolicy", *inside), value, f"{message}, {_REFUSED}; correct it"


def _failed_indexes(spec: Mapping[str, Any]) -> Iterator[_Fault]:
    most, count = spec["maxFailedIndexes"], spec.get("completions")
    if spec.get("backoffLimitPerIndex") is None:
        message = f"needs backoffLimitPerIndex, {_REFUSED}; add it, or remove this"
        yield ("maxFailedIndexes",), most, message
    elif type(most) is int and type(count) is int and most > count:
        yield ("maxFailedIndexes",), most, f"is above completions, {count}, {_REFUSED}; lower it"


def _pod_failures(spec: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[_Fault]:
    rules = loose.mapping(spec["podFailurePolicy"]).get("rules")
    held = {each.get("name") for member in ("containers", "initContainers") for each in pod.get(member) or ()}
    if spec.get("podReplacementPolicy") not in (None, "", "Failed"):
        message = f"a Job with a podFailurePolicy takes only Failed, {_REFUSED}; write it, or remove this"
        yield ("podReplacementPolicy",), spec["podReplacementPolicy"], message
    for index, rule in enumerate(loose.sequence(rules)):
        if isinstance(rule, dict):
            for inside, value, message in _pod_failure(rule, spec, held):
                yield ("podFailurePolicy", "rules", index, *inside), value, message


def _pod_failure(rule: Mapping[str, Any], spec: Mapping[str, Any], held: set[Any]) -> Iterator[_Fault]:
    action, codes, conditions = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions")
    if isinstance(action, str) and action not in _ACTIONS:
        yield ("action",), action, f"is not {' or '.join(_ACTIONS)}, {_REFUSED}; use one of them"
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield ("action",), action, f"needs backoffLimitPerIndex, {_REFUSED}; add it, or use FailJob"
    if (codes is None) != bool(conditions):
        message = f"a rule has onExitCodes or onPodConditions, and not both, {_REFUSED}; correct it"
        yield (), None, message
    if isinstance(codes, dict):
        yield from _exit_codes(codes, held)


def _exit_codes(codes: Mapping[str, Any], held: set[Any]) -> Iterator[_Fault]:
    operator, values, name = codes.get("operator"), codes.get("values"), codes.get("containerName")
    if isinstance(operator, str) and operator not in ("In", "NotIn"):
        yield ("onExitCodes", "operator"), operator, f"is not In or NotIn, {_REFUSED}; use one of them"
    if isinstance(name, str) and name not in held:
        among = " or ".join(sorted(str(each) for each in held)[:_SHOWN]) or "a container of the pod"
        message = f"no container of the pod has this name, {_REFUSED}; use {among}"
        yield ("onExitCodes", "containerName"), name, message
    numbers = [each for each in values if type(each) is int] if isinstance(values, list) else None
    if numbers is None or numbers != values:
        return
    if operator == "In" and 0 in numbers:
        yield ("onExitCodes", "values"), values, f"0 is not the exit code of a failure, {_REFUSED}; remove it"
    if not numbers or sorted(set(numbers)) != numbers:
        message = f"needs exit codes in rising order, each once, {_REFUSED}; correct it"
        yield ("onExitCodes", "values"), values, message


def _texts(rule: Mapping[str, Any], member: str) -> list[tuple[int, str]]:
    found = rule.get(member)
    return [(n, each) for n, each in enumerate(found) if isinstance(each, str)] if isinstance(found, list) else []
