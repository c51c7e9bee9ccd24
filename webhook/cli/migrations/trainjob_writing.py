"""Writes a TrainJob, and a runtime beside it where no shipped one can hold the job, as YAML with comments.

The shipped runtime is `torch-distributed`, which Trainer and Muster both have. All that `runtimePatches` cannot say
(other members of the pod, restarts, retries, gangs) needs a runtime of the job's own. What has no equivalent stands at
the head, before the first document; what changed its meaning is a comment at its place.

"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from muster.strategies.documents import names, trainjobs
from muster.webhook import kubeyaml
from muster.webhook.cli import problems
from muster.webhook.cli.migrations import old_kinds
from muster.webhook.cli.migrations.migration_notes import Migrated, Note, Notes
from muster.webhook.cli.migrations.old_kinds import Document, OldJob, SchedulingPolicy, Spec, Unmigrated
from muster.webhook.cli.migrations.pod_templates import Replica

__all__ = [
    "Framework",
    "Policies",
    "addresses",
    "index",
    "job_of",
    "name_of",
    "policies",
    "runtime",
    "single",
    "text",
    "trainjob",
]

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


class Policies(Struct):
    """What `runPolicy` says, for the TrainJob and for its runtime."""

    spec: Document = field(default_factory=dict)
    backoff: int | None = None
    gang: Document = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    priority: str = ""


class Framework(Struct, frozen=True):
    """What a runtime says about its framework.

    Attributes:
        label: of the runtime.
        source: the policy of Trainer, `{"torch": {}}`; {} for none.
        processes: the number of processes of a node, None for Trainer's default.
    """

    label: str
    source: Document
    processes: int | None = None


def policies(spec: Spec, notes: Notes, size: int) -> Policies:
    """Return what `spec.runPolicy` of a job with a number of pods says."""
    policy, at = spec.run_policy, "spec.runPolicy.schedulingPolicy"
    gang = old_kinds.read(policy.scheduling_policy, SchedulingPolicy, f"{at}.")
    found = Policies(backoff=policy.backoff_limit, priority=gang.priority_class)
    said: Document = {"suspend": policy.suspend, "activeDeadlineSeconds": policy.active_deadline_seconds}
    said |= {"managedBy": policy.managed_by}
    found.spec = {member: value for member, value in said.items() if value is not None and value not in _OPERATORS}
    if gang.min_available is not None and gang.min_available != size:
        text = f"Trainer starts a gang when all of its {size} pods fit, and not when {gang.min_available} do."
        notes.lost(f"{at}.minAvailable", text)
    wait = gang.schedule_timeout_seconds
    if gang.queue:
        found.gang, found.annotations = {"volcano": {}}, {"scheduling.volcano.sh/queue-name": gang.queue}
    elif policy.scheduling_policy:
        found.gang = {"coscheduling": {"scheduleTimeoutSeconds": wait} if wait is not None else {}}
    return found


def name_of(job: OldJob) -> str:
    """Return the name of a job.

    Raises:
        Unmigrated: it has no name, on which the addresses of its pods depend.
    """
    if not job.metadata.name:
        raise Unmigrated("metadata.name: the addresses of the pods depend on it; write a name")
    return job.metadata.name


def _metadata(job: OldJob) -> Document:
    """Return the metadata of the TrainJob."""
    about = job.metadata
    annotations = {each: value for each, value in about.annotations.items() if each != _APPLIED}
    found = {"name": about.name, "namespace": about.namespace, "labels": about.labels, "annotations": annotations}
    return {each: value for each, value in found.items() if value}


def addresses(
    name: str, role: str, offset: int, job: str = "node"
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    """Return the pattern of the addresses of a role's pods, and what replaces one; a launcher has no number."""
    quoted, number = re.escape(name), "()" if role == "launcher" else r"-(\d+)"
    pattern = re.compile(rf"(?<![\w.-]){quoted}-{role}{number}(?:\.{quoted}(?![\w-]))?(?![\w-])")
    return pattern, lambda found: f"{name}-{job}-0-{int(found[1] or 0) + offset}.{name}"


def index(name: str) -> Document:
    """Return a variable with the rank of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": names.COMPLETION_INDEX_FIELD}}}


def job_of(replica: Replica, found: Policies, notes: Notes, *, is_job: bool = False) -> Document:
    """Return the spec of the Job of a replica: its pods, its retries and what ends it.

    Args:
        replica: with its restart policy.
        found: what `runPolicy` says.
        notes: for what changed.
        is_job: whether the old operator made a Job for it too, so that retries mean the same.
    """
    spec: Document = {"template": {each: dict(value) for each, value in replica.template.items()}}
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


def runtime(owner: OldJob, framework: str, policy: Document, jobs: Sequence[Document], found: Policies) -> Document:
    """Return a runtime of the job's own, which has its name and namespace."""
    where = {each: value for each, value in _metadata(owner).items() if each in ("name", "namespace")}
    template: Document = {"spec": {"replicatedJobs": list(jobs)}}
    if found.annotations:
        template = {"metadata": {"annotations": found.annotations}, **template}
    spec = {"mlPolicy": policy, **({"podGroupPolicy": found.gang} if found.gang else {}), "template": template}
    about = {**where, "labels": {names.FRAMEWORK_LABEL: framework}}
    return {"apiVersion": names.TRAINER_API_VERSION, "kind": "TrainingRuntime", "metadata": about, "spec": spec}


def single(owner: OldJob, notes: Notes, replica: Replica, framework: Framework) -> list[Document]:
    """Return the TrainJob of a job whose nodes all run one pod, behind its runtime if it needs one of its own."""
    found = policies(owner.spec, notes, replica.count)
    job = job_of(replica, found, notes)
    container = replica.main
    trainer: Document = {"numNodes": replica.count}
    if framework.processes is not None:
        trainer["numProcPerNode"] = framework.processes
    trainer |= {to: container[member] for member, to in _TRAINER.items() if container.get(member)}
    patch = _patch(job, framework.label, found)
    if patch is not None:
        return [
            trainjob(owner, trainer, found, {trainjobs.PATCHES: [trainjobs.of_pods({"node": patch})]} if patch else {})
        ]
    trainer.pop("image", None)
    inside = {each: value for each, value in container.items() if each == "image" or each not in _TRAINER}
    job["template"]["spec"]["containers"] = [inside, *replica.containers[1:]]
    about_job = {"labels": {names.ANCESTOR_LABEL: "trainer"}}
    replicated = {"name": "node", "template": {"metadata": about_job, "spec": job}}
    policy = {"numNodes": replica.count, **framework.source}
    return [runtime(owner, framework.label, policy, [replicated], found), trainjob(owner, trainer, found)]


def trainjob(owner: OldJob, trainer: Document, found: Policies, patched: Document | None = None) -> Document:
    """Return a TrainJob.

    Args:
        owner: the job that it stands for.
        trainer: its `spec.trainer`.
        found: what `runPolicy` says.
        patched: its patches of the shipped runtime; None for a job that has a runtime of its own.
    """
    reference: Document = {"name": _SHIPPED}
    if patched is None:
        reference = {"apiGroup": names.TRAINER_GROUP, "kind": "TrainingRuntime", "name": owner.metadata.name}
    spec = {"runtimeRef": reference, "trainer": trainer, **({} if patched is None else patched), **found.spec}
    return {"apiVersion": names.TRAINER_API_VERSION, "kind": "TrainJob", "metadata": _metadata(owner), "spec": spec}


def _patch(job: Document, framework: str, found: Policies) -> Document | None:
    """Return the pod template as a patch of the shipped runtime, None where a patch cannot say all of it."""
    template = job["template"]
    spec, about = dict(template["spec"]), template.get("metadata", {})
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


def _implied(member: str, container: Document) -> bool:
    """Whether a member says what holds without it: the pull policy of the tag, the port of the operator."""
    value = container[member]
    if member == "imagePullPolicy":
        image = str(container.get("image", "")).rpartition("/")[2]
        floats = "@" not in image and (":" not in image or image.endswith(":latest"))
        return bool(value == ("Always" if floats else "IfNotPresent"))
    return member == "ports" and all(str(each.get("name", "")).endswith("job-port") for each in value)


_RUNTIME = "runtime: "
_WIDTH = 120
_LEAST = 40  # characters of a comment that stands far inside


def text(migrated: Migrated, title: str) -> str:
    """Return the documents as YAML with comments.

    Args:
        migrated: the documents and the notes about them.
        title: what they were made from, for people.
    """
    head = _comment(f"Migrated by muster from {title}.")
    if migrated.lost:
        head += _comment("No equivalent in a TrainJob:")
        head += [line for each in migrated.lost for line in _comment(_said(each), begin="- ")]
    *_, job = migrated.documents
    placed: dict[int, list[tuple[tuple[str | int, ...], Note]]] = defaultdict(list)
    for note in migrated.notes:
        if note.fate == "changed":
            number, path = _place(note, migrated.documents, job)
            placed[number].append((path, note))
    bodies = [_commented(kubeyaml.dump(each), placed[number]) for number, each in enumerate(migrated.documents)]
    return "".join(head) + "---\n".join(bodies)


def _place(note: Note, documents: Sequence[Document], job: Document) -> tuple[int, tuple[str | int, ...]]:
    """Return the document of a note and the path of its comment; its reference where there is no runtime."""
    last = len(documents) - 1
    if not note.to.startswith(_RUNTIME):
        return last, _path(note.to)
    if documents[0] is job:
        return last, ("spec", "runtimeRef")
    return 0, _path(note.to.removeprefix(_RUNTIME))


def _path(written: str) -> tuple[str | int, ...]:
    return tuple(int(each) if each.isdecimal() else each for each in written.split("."))


def _commented(body: str, notes: Iterable[tuple[tuple[str | int, ...], Note]]) -> str:
    (written,) = kubeyaml.load_all(body)
    inserted: dict[int, list[str]] = defaultdict(list)
    for path, note in notes:
        spot = written.find(path)
        inserted[spot.line] += _comment(_said(note), spot.column - 1)
    lines = body.splitlines(keepends=True)
    return "".join("".join(inserted.get(number, ())) + line for number, line in enumerate(lines, 1))


def _said(note: Note) -> str:
    return f"{note.member}: {note.text}"


def _comment(line: str, indent: int = 0, begin: str = "") -> list[str]:
    margin, width = f"{' ' * indent}# ", max(_WIDTH, indent + _LEAST)
    rest = margin + " " * len(begin)
    found = textwrap.wrap(problems.one_line(line), width, initial_indent=margin + begin, subsequent_indent=rest)
    return [f"{each}\n" for each in found]
