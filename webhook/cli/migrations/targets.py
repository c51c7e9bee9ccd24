"""Targets: writes a TrainJob, and a runtime beside it where no shipped one can hold the job.

The shipped runtime is `torch-distributed`, which Trainer and Muster both have. All that `runtimePatches` cannot say
(other members of the pod, restarts, retries, gangs) needs a runtime of the job's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.strategies.documents import names, overrides
from muster.webhook import kubeyaml
from muster.webhook.cli.migrations import reading
from muster.webhook.cli.migrations.notes import Notes, Unmigrated
from muster.webhook.cli.migrations.pods import Replica

__all__ = [
    "TRAINER",
    "Framework",
    "Policies",
    "addresses",
    "index",
    "job_of",
    "metadata",
    "policies",
    "runtime",
    "single",
]

TRAINER = f"{names.TRAINER_GROUP}/v1alpha1"
_SHIPPED = "torch-distributed"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# What a patch of Trainer may have: PodSpecPatch and ContainerPatch in pkg/apis/trainer/v1alpha1/trainjob_types.go.
_POD_PATCH = frozenset({
    "serviceAccountName", "volumes", "imagePullSecrets", "securityContext", "nodeSelector", "affinity", "tolerations",
    "schedulingGates", "terminationGracePeriodSeconds",
})  # fmt: skip
_CONTAINER_PATCH = ("volumeMounts", "securityContext")
_TRAINER = {"image": "image", "command": "command", "args": "args", "env": "env", "resources": "resourcesPerNode"}
_OPERATORS = ("kubeflow.org/training-operator", "kubeflow.org/mpi-operator")
_RETRIES = "Without a backoffLimit the operator tried again without end; the Job of a TrainJob fails after 6 tries."
_PERMANENT = range(1, 128)  # exit codes after which ExitCode gives up (training-operator pkg/util/train)


@dataclass(slots=True)
class Policies:
    """What `runPolicy` says, for the TrainJob and for its runtime."""

    spec: dict[str, Any] = field(default_factory=dict)
    backoff: int | None = None
    gang: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    priority: str = ""


@dataclass(frozen=True, slots=True)
class Framework:
    """What a runtime says about its framework.

    Attributes:
        label: of the runtime.
        source: the policy of Trainer, `{"torch": {}}`; {} for none.
        processes: the number of processes of a node, None for Trainer's default.
    """

    label: str
    source: Mapping[str, Any]
    processes: int | None = None


def policies(document: Mapping[str, Any], notes: Notes, size: int) -> Policies:
    """Read `spec.runPolicy` of a job with a number of pods."""
    at = ("spec", "runPolicy")
    found = Policies(backoff=reading.field(document, int, *at, "backoffLimit"))
    for member in ("suspend", "activeDeadlineSeconds", "managedBy"):
        value = reading.section(document, *at).get(member)
        if value is not None and value not in _OPERATORS:
            found.spec[member] = value
    gang = (*at, "schedulingPolicy")
    queue = reading.string(document, *gang, "queue")
    wait = reading.field(document, int, *gang, "scheduleTimeoutSeconds")
    least = reading.field(document, int, *gang, "minAvailable")
    if least is not None and least != size:
        text = f"Trainer starts a gang when all of its {size} pods fit, and not when {least} do."
        notes.lost("spec.runPolicy.schedulingPolicy.minAvailable", text)
    found.priority = reading.string(document, *gang, "priorityClass")
    if queue:
        found.gang, found.annotations = {"volcano": {}}, {"scheduling.volcano.sh/queue-name": queue}
    elif reading.section(document, *gang):
        found.gang = {"coscheduling": {"scheduleTimeoutSeconds": wait} if wait is not None else {}}
    return found


def metadata(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of the TrainJob.

    Raises:
        Unmigrated: it has no name, on which the addresses of its pods depend.
    """
    if not reading.string(document, "metadata", "name"):
        raise Unmigrated("metadata.name: the addresses of the pods depend on it; write a name")
    found = {each: document["metadata"].get(each) for each in ("name", "namespace", "labels", "annotations")}
    if found["annotations"]:
        annotations = reading.section(document, "metadata", "annotations")
        found["annotations"] = {each: value for each, value in annotations.items() if each != _APPLIED}
    return {each: value for each, value in found.items() if value}


def addresses(
    name: str, role: str, offset: int, job: str = "node"
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    """Return the pattern of the addresses of a role's pods, and what replaces one; a launcher has no number."""
    quoted, number = re.escape(name), "()" if role == "launcher" else r"-(\d+)"
    pattern = re.compile(rf"(?<![\w.-]){quoted}-{role}{number}(?:\.{quoted}(?![\w-]))?(?![\w-])")
    return pattern, lambda found: f"{name}-{job}-0-{int(found[1] or 0) + offset}.{name}"


def index(name: str) -> dict[str, Any]:
    """Return a variable with the rank of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": names.COMPLETION_INDEX_FIELD}}}


def job_of(replica: Replica, found: Policies, notes: Notes, *, is_job: bool = False) -> dict[str, Any]:
    """Return the spec of the Job of a replica: its pods, its retries and what ends it.

    Args:
        replica: with its restart policy.
        found: what `runPolicy` says.
        notes: for what changed.
        is_job: whether the old operator made a Job for it too, so that retries mean the same.
    """
    spec: dict[str, Any] = {"template": {each: dict(value) for each, value in replica.template.items()}}
    pod = spec["template"]["spec"]
    if found.priority:
        pod.setdefault("priorityClassName", found.priority)
    if replica.restart in ("Never", "ExitCode"):
        pod["restartPolicy"] = "Never"
    backoff = found.backoff
    if replica.restart == "Never" and not is_job:
        backoff = 0
    elif backoff is None and not is_job:
        notes.changed(f"{replica.at}.restartPolicy", "spec.runtimeRef", _RETRIES)
    if replica.restart == "ExitCode" and not is_job:
        codes = {"containerName": "node", "operator": "In", "values": kubeyaml.Row(_PERMANENT)}
        spec = {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": codes}]}, **spec}
    return {"backoffLimit": backoff, **spec} if backoff is not None else spec


def runtime(
    about: Mapping[str, Any],
    framework: str,
    policy: Mapping[str, Any],
    jobs: Sequence[Mapping[str, Any]],
    found: Policies,
) -> dict[str, Any]:
    """Return a runtime of the job's own, which has its name and namespace."""
    where = {each: about[each] for each in ("name", "namespace") if each in about}
    template: dict[str, Any] = {"spec": {"replicatedJobs": list(jobs)}}
    if found.annotations:
        template = {"metadata": {"annotations": found.annotations}, **template}
    spec = {"mlPolicy": dict(policy), **({"podGroupPolicy": found.gang} if found.gang else {}), "template": template}
    labels = {names.FRAMEWORK_LABEL: framework}
    return {"apiVersion": TRAINER, "kind": "TrainingRuntime", "metadata": {**where, "labels": labels}, "spec": spec}


def single(document: Mapping[str, Any], notes: Notes, replica: Replica, framework: Framework) -> list[dict[str, Any]]:
    """Return the TrainJob of a job whose nodes all run one pod, behind its runtime if it needs one of its own."""
    found, about = policies(document, notes, replica.count), metadata(document)
    job = job_of(replica, found, notes)
    container = replica.main
    trainer: dict[str, Any] = {"numNodes": replica.count}
    if framework.processes is not None:
        trainer["numProcPerNode"] = framework.processes
    trainer |= {to: container[member] for member, to in _TRAINER.items() if container.get(member)}
    spec: dict[str, Any] = {"runtimeRef": {"name": _SHIPPED}, "trainer": trainer}
    made: list[dict[str, Any]] = []
    patch = _patch(job, framework.label, found)
    if patch is None:
        trainer.pop("image", None)
        inside = {each: value for each, value in container.items() if each == "image" or each not in _TRAINER}
        job["template"]["spec"]["containers"] = [inside, *replica.containers[1:]]
        about_job = {"labels": {names.ANCESTOR_LABEL: "trainer"}}
        replicated = {"name": "node", "template": {"metadata": about_job, "spec": job}}
        policy = {"numNodes": replica.count, **framework.source}
        made.append(runtime(about, framework.label, policy, [replicated], found))
        spec["runtimeRef"] = {"apiGroup": names.TRAINER_GROUP, "kind": "TrainingRuntime", "name": about["name"]}
    elif patch:
        spec[overrides.PATCHES] = [overrides.of_pods({"node": patch})]
    return [*made, trainjob(about, {**spec, **found.spec})]


def trainjob(about: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a TrainJob."""
    return {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": dict(about), "spec": dict(spec)}


def _patch(job: Mapping[str, Any], framework: str, found: Policies) -> dict[str, Any] | None:
    """Return the pod template as a patch of the shipped runtime, None where a patch cannot say all of it."""
    template = job["template"]
    spec, about = dict(template["spec"]), template.get("metadata") or {}
    containers = spec.pop("containers")
    container = {
        each: value
        for each, value in containers[0].items()
        if each not in _TRAINER and not _implied(each, containers[0])
    }
    fits = (
        framework == "torch"
        and job.keys() == {"template"}
        and not (found.gang or found.annotations)
        and len(containers) == 1
        and spec.keys() <= _POD_PATCH
        and about.keys() <= {"labels", "annotations"}
        and "image" in containers[0]
        and container.keys() <= {"name", *_CONTAINER_PATCH}
    )
    if not fits:
        return None
    inner = {**({"containers": [container]} if len(container) > 1 else {}), **spec}
    return {**({"metadata": about} if about else {}), **({"spec": inner} if inner else {})}


def _implied(member: str, container: Mapping[str, Any]) -> bool:
    """Whether a member says what holds without it: the pull policy of the tag, the port of the operator."""
    value = container[member]
    if member == "imagePullPolicy":
        image = str(container.get("image", "")).rpartition("/")[2]
        floats = "@" not in image and (":" not in image or image.endswith(":latest"))
        return bool(value == ("Always" if floats else "IfNotPresent"))
    return member == "ports" and all(str(each.get("name", "")).endswith("job-port") for each in value)
