"""Policies: rules of a JobSet about success, failure and order that nothing will accept.

JobSet's webhook refuses the JobSet: the person who applies one sees it, and of a TrainJob only its events tell. What an
API server says of the Jobs, a dry run asks. Sources: jobset `pkg/webhooks/jobset_webhook.go` ValidateCreate and
validateFailurePolicy, `pkg/controllers/success_policy.go`: a JobSet with the operator All waits for the end of each
replicated job that its success policy names, and of all when it names none, and a server among them never ends.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from muster.strategies.documents import names, paths
from muster.strategies.documents.findings import Finding, error, note, warning
from muster.strategies.documents.model import FailurePolicy, JobSetSpec, SuccessPolicy
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, find_spec
from muster.strategies.launches import pod_endings
from muster.strategies.trainer import runtime_patches

__all__ = ["check"]

_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
_NAME = r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_LONGEST = 128
_SUBDOMAIN = r"[a-z]([-a-z0-9]*[a-z0-9])?"
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
    yield from _gang(job, templates)
    for report, faults in ((error, _of_jobset(job.jobset)), (warning, _gated(job.jobset.failure_policy))):
        for inside, value, message in faults:
            yield report(paths.field(document, (*start, *inside)), value, message, rule="core/jobset-policy")
    yield from _deleted(templates)
    yield from _endless(job.jobset.success_policy, templates, pod_endings.of_job(job))


def _deleted(templates: Sequence[Template]) -> Iterator[Finding]:
    """Report Jobs that are deleted when they have ended, and that JobSet then makes again (shouldCreateJob)."""
    if len(templates) == 1 and templates[0].job.jobs <= 1:
        return
    for template in templates:
        seconds = template.job.template.spec.ttl_seconds_after_finished
        if seconds is not None:
            message = (
                "deletes a Job that has ended, and JobSet makes it again, and runs it again, as long as the set has "
                "not ended; remove it, or write it into the spec of the JobSet"
            )
            field = template.locate((*template.path, "template", "spec", "ttlSecondsAfterFinished"))
            yield warning(field, seconds, message, rule="core/jobset-policy")


def _gang(job: Job, templates: Sequence[Template]) -> Iterator[Finding]:
    """Report a gang of all pods, of which some are made when others have ended.

    Trainer counts the pods of all replicated jobs (`plugins/coscheduling`, `plugins/volcano`), and the scheduler
    starts none before as many exist (scheduler-plugins `pkg/coscheduling/core/core.go` PreFilter).
    """
    if job.kind != "TrainJob" or job.runtime is None:
        return
    spec = job.runtime.value.spec
    gang = next((each for each in _GANGS if spec.pod_group_policy.get(each) is not None), None)
    if gang == "volcano" and spec.template.metadata.annotations.get(_QUEUE[-1]) == "":  # plugins/volcano Validate
        patched = runtime_patches.find(job.runtime, _QUEUE)
        where = paths.field(job.runtime.document, _QUEUE) if patched is None else paths.field(job.document, patched)
        message = "is not the name of a queue, so Trainer refuses the job; write one, or remove it"
        yield error(where, "", message, rule="core/gang")
    for template in templates if gang else ():
        for index, item in enumerate(template.job.depends_on):
            if item.status == "Complete":
                message = (
                    f"{gang} starts no pod before all of them exist, and these are made when {item.name} has ended, so "
                    "that the job never starts; remove podGroupPolicy, or dependsOn"
                )
                yield error(template.locate((*template.path, "dependsOn", index)), item.name, message, rule="core/gang")
                return


_GANGS = ("coscheduling", "volcano")
_QUEUE = ("spec", "template", "metadata", "annotations", "scheduling.volcano.sh/queue-name")


def _of_jobset(spec: JobSetSpec) -> Iterator[_Fault]:
    called = [each.name for each in spec.replicated_jobs]
    for index, name in enumerate(spec.success_policy.target_replicated_jobs):
        if name not in called:
            yield ("successPolicy", "targetReplicatedJobs", index), name, _nobody(called)
    yield from _order(spec, called)
    yield from _coordinator(spec, called)
    yield from _network(spec)
    for index, policy in enumerate(spec.volume_claim_policies):
        for number, template in enumerate(policy.templates):
            if template.metadata.namespace:  # `api/jobset/v1alpha2/jobset_types.go`
                place = ("volumeClaimPolicies", index, "templates", number, "metadata", "namespace")
                yield place, template.metadata.namespace, f"a claim lies where its JobSet does, {_JOBSET}; remove it"
    yield from _failures(spec.failure_policy, called)


def _nobody(called: Sequence[str]) -> str:
    return f"no replicated job has this name, {_JOBSET}; use {' or '.join(called[:_SHOWN]) or 'one of them'}"


def _order(spec: JobSetSpec, called: Sequence[str]) -> Iterator[_Fault]:
    """Check `dependsOn`, which names replicated jobs that stand before."""
    earlier: dict[str, None] = {}
    held = frozenset(called)
    in_order = spec.startup_policy.startup_policy_order == "InOrder"
    for index, each in enumerate(spec.replicated_jobs):
        if each.depends_on and in_order:
            message = f"startupPolicyOrder: InOrder excludes it, {_JOBSET}; remove one of the two"
            yield ("replicatedJobs", index, "dependsOn"), None, message
        if each.depends_on and index == 0:
            message = f"the first replicated job waits for no other, {_JOBSET}; put it behind the one that it names"
            yield ("replicatedJobs", index, "dependsOn"), None, message
        for number, item in enumerate(each.depends_on if index else ()):
            if item.name not in earlier:
                behind = f"it does not stand before this one, {_JOBSET}; put it before"
                message = behind if item.name in held else _nobody([*itertools.islice(earlier, _SHOWN)])
                yield ("replicatedJobs", index, "dependsOn", number, "name"), item.name, message
        earlier[each.name] = None


def _coordinator(spec: JobSetSpec, called: Sequence[str]) -> Iterator[_Fault]:
    """Check that the pod of `coordinator` exists (validateCoordinator); Trainer sets the numbers that are missing."""
    chosen = spec.coordinator
    if chosen is None:
        return
    job = next((each for each in spec.replicated_jobs if each.name == chosen.replicated_job), None)
    if job is None:
        yield ("coordinator", "replicatedJob"), chosen.replicated_job or None, _nobody(called)
        return
    pods = job.template.spec.completions
    for member, index, count in (("jobIndex", chosen.job_index, job.replicas), ("podIndex", chosen.pod_index, pods)):
        if count is not None and index >= count:
            message = f"no pod has this index, which counts from 0, {_JOBSET}; lower it"
            yield ("coordinator", member), index, message


def _network(spec: JobSetSpec) -> Iterator[_Fault]:
    """Check the subdomain, which becomes the name of a Service, and the manager."""
    name = spec.network.subdomain
    if name and not (len(name) <= _LABEL and re.fullmatch(_SUBDOMAIN, name)):
        message = f"begins with a letter and takes small letters, digits and -, up to {_LABEL}, {_JOBSET}; rename it"
        yield ("network", "subdomain"), name, message
    if spec.managed_by and not all(spec.managed_by.partition("/")):
        message = f"has to be a domain and a path, such as kueue.x-k8s.io/multikueue, {_JOBSET}; correct or remove it"
        yield ("managedBy",), spec.managed_by, message


def _failures(policy: FailurePolicy, called: Sequence[str]) -> Iterator[_Fault]:
    seen: set[str] = set()
    held = frozenset(called)
    for index, rule in enumerate(policy.rules):
        place: Path = ("failurePolicy", "rules", index)
        if rule.name in seen:
            yield (*place, "name"), rule.name, f"another rule has this name, {_JOBSET}; rename one"
        elif rule.name and (len(rule.name) > _LONGEST or not re.fullmatch(_NAME, rule.name)):
            message = f"begins with a letter and takes letters, digits, _ , and : alone, {_JOBSET}; rename it"
            yield (*place, "name"), rule.name, message
        seen |= {rule.name} - {""}
        for number, reason in enumerate(rule.on_job_failure_reasons):
            if reason not in _REASONS:
                message = f"is not a reason for which a Job fails, {_JOBSET}; use {' or '.join(_REASONS)}"
                yield (*place, "onJobFailureReasons", number), reason, message
        for number, target in enumerate(rule.target_replicated_jobs):
            if target not in held:
                yield (*place, "targetReplicatedJobs", number), target, _nobody(called)


def _gated(policy: FailurePolicy) -> Iterator[_Fault]:
    """Yield what JobSet takes only behind feature gates that are off (`pkg/features/features.go`)."""
    for index, rule in enumerate(policy.rules):
        if rule.action in _GATED:
            message = "JobSet refuses it while its feature gate RestartJob is off, as by default; use RestartJobSet"
            yield ("failurePolicy", "rules", index, "action"), rule.action, message
    if policy.restart_strategy == "InPlaceRestart":
        message = "JobSet refuses it while its feature gate InPlaceRestart is off, as by default; use Recreate"
        yield ("failurePolicy", "restartStrategy"), "InPlaceRestart", message


def _endless(policy: SuccessPolicy, templates: Sequence[Template], reader: pod_endings.Reader) -> Iterator[Finding]:
    """Report a replicated job that never ends and that a JobSet waits for, beside one that may end.

    Args:
        policy: the success policy of the JobSet.
        templates: its replicated jobs.
        reader: says which containers never end.
    """
    named = policy.target_replicated_jobs
    if policy.operator != "All" or len(templates) < 2:
        return
    waiting = {index for index, each in enumerate(templates) if _never_ends(each, reader)}
    if len(waiting) == len(templates):
        return
    # By its name alone, the launcher of MPI may be another program than a training, and end the daemons of its nodes.
    runtime = templates[0].runtime
    daemons = runtime is not None and runtime.value.spec.ml_policy.mpi is not None and runtime.is_unlabelled
    for index in sorted(waiting):
        name = templates[index].job.name
        if not named or name in named:
            message = (
                "never ends, and the set is complete only when this replicated job has ended too, so that it keeps its "
                "devices for ever; name the training in successPolicy.targetReplicatedJobs"
            )
            place = templates[index].locate((*templates[index].path, "name"))
            yield (note if daemons and name == names.CONTAINER_NODE else warning)(
                place, name, message, rule="core/endless-part"
            )


def _never_ends(template: Template, reader: pod_endings.Reader) -> bool:
    return any(reader.never_ends(each.argv) for each in template.pod.containers)
