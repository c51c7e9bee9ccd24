"""Whys: one sentence why a job is where it is, from a table of questions, of which the first with an answer counts.

What ended comes first, then what holds the whole job, then what keeps its pods from being made, placed and started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from muster.webhook.cli import wording
from muster.webhook.cli.stories import seats, words
from muster.webhook.cli.stories.gathered import Document, Gathered, condition, containers
from muster.webhook.cli.stories.told import Phase, Why, World
from muster.webhook.controllers.guards import Verdict

__all__ = ["TABLE", "why"]

_QUEUE = "kueue.x-k8s.io/queue-name"
_PULLING = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
)
_BROKEN = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError"})
_NOT_CREATED = frozenset({"FailedCreate", "JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed"})
_DENIED = 'admission webhook "'
_GUARDED = 78  # exit code of the guard
_VERDICTS: Final[Mapping[Verdict, str]] = {
    "weights-differ": "its sampler served other weights than were trained",
    "weights-refused": "its sampler refused the weights that it was sent",
}

_Answer = str | None


def why(found: Gathered, world: World) -> Why:
    """Return why the job is where it is."""
    for code, phase, ask in TABLE:
        text = ask(found, world)
        if text:
            return Why(code, phase, text)
    return Why("unknown", "Unknown", "nothing in the cluster says what it waits for")


def _refused(found: Gathered, _world: World) -> _Answer:
    if found.job is not None:
        return None
    told = next((each for each in found.about("TrainJob", "JobSet") if each.get("reason") == "MusterDenied"), None)
    if told is not None:
        return f"was refused when somebody created it: {words.quoted(told.get('message'))}"
    denied = next((each for each in reversed(found.records) if each["decision"] == "denied"), None)
    return None if denied is None else f"was refused when somebody created it: {_findings(denied)}"


def _failed_by_size(found: Gathered, world: World) -> _Answer:
    if world.right is not False or not found.is_on("Failed"):
        return None
    return f"failed because {_sizes(world)}; the guard ended it"


def _failed_by_verdict(found: Gathered, world: World) -> _Answer:
    if world.verdict is None or not found.is_on("Failed"):
        return None
    return f"failed because {_VERDICTS[world.verdict]}; the guard ended it{_after(_ends(found, _GUARDED))}"


def _failed(found: Gathered, _world: World) -> _Answer:
    told = condition(found.trainjob, "Failed") or condition(found.jobset, "Failed")
    if told is None:
        return None
    said = words.quoted(told.get("message")) or words.quoted(told.get("reason"))
    return f"failed: {said}{_after(_ends(found))}"


def _finished(found: Gathered, world: World) -> _Answer:
    if not (found.is_on("Complete") or found.is_on("Completed")):
        return None
    if world.right is False:
        return f"finished, but {_sizes(world)}"
    ranks = f" with {wording.plural(world.reached, 'rank')}" if world.reached else ""
    return f"finished{ranks}{', as was asked for' if world.right else ''}"


def _deleting(found: Gathered, _world: World) -> _Answer:
    metadata = (found.job or {}).get("metadata") or {}
    if not metadata.get("deletionTimestamp"):
        return None
    holding = words.listed([words.quoted(each, 80) for each in metadata.get("finalizers") or ()])
    return f"is being deleted{f', and waits for {holding}' if holding else ''}"


def _suspended_by_kueue(found: Gathered, _world: World) -> _Answer:
    queue = ((found.job or {}).get("metadata") or {}).get("labels", {}).get(_QUEUE)
    if not queue or not _is_suspended(found.job):
        return None
    return f"is suspended: Kueue has not admitted it from queue {words.quoted(queue, 80)}, which waits for quota"


def _suspended(found: Gathered, _world: World) -> _Answer:
    for kind, document in (("TrainJob", found.trainjob), ("JobSet", found.jobset)):
        if document is not None and _is_suspended(document):
            by = f" by {writer}" if (writer := _writer(document)) else ""
            if kind == found.kind:
                return f"is suspended{by}: spec.suspend is true"
            return f"its {kind} is suspended{by}, though its {found.kind} is not: spec.suspend is true"
    return None


def _unsupported(found: Gathered, _world: World) -> _Answer:
    if found.jobset is not None or found.trainjob is None:
        return None
    message = _creation(found)
    missing = "not found" in message and "untime" in message
    return f"its runtime is missing: {message}" if missing else None


def _change_refused(found: Gathered, _world: World) -> _Answer:
    """Why a TrainJob and its JobSet disagree; the Event of a refusal stays for an hour, also when it is long mended."""
    if found.trainjob is None or found.jobset is None or _is_suspended(found.trainjob) == _is_suspended(found.jobset):
        return None
    wanted = "suspended" if _is_suspended(found.trainjob) else "resumed"
    by = _denied(_creation(found))
    return f"is to be {wanted}, but the change of its JobSet was refused {by}" if by else None


def _jobset_refused(found: Gathered, _world: World) -> _Answer:
    by = _denied(_creation(found)) if found.trainjob is not None and found.jobset is None else ""
    return f"its JobSet was refused {by}" if by else None


def _jobset_not_made(found: Gathered, _world: World) -> _Answer:
    if found.trainjob is None or found.jobset is not None:
        return None
    message = _creation(found)
    return f"Trainer cannot make its JobSet: {message}" if message else "waits for Trainer to make its JobSet"


def _guarded(found: Gathered, world: World) -> _Answer:
    """Why a training begins again and again that the guard ends."""
    codes = {
        ((status.get(state) or {}).get("terminated") or {}).get("exitCode")
        for pod in found.pods
        for status in containers(pod)
        for state in ("state", "lastState")
    }
    runs = any((status.get("state") or {}).get("running") for pod in found.live_pods() for status in containers(pod))
    if world.right is not False or _GUARDED not in codes or runs:
        return None
    return f"the guard ended it: {_sizes(world)}; Kubernetes starts it again until its backoffLimit is used up"


def _seats(found: Gathered, _world: World) -> _Answer:
    return seats.sentence(found)


def _gated(found: Gathered, _world: World) -> _Answer:
    for pod in found.live_pods():
        gates = [words.quoted(each.get("name"), 80) for each in (pod.get("spec") or {}).get("schedulingGates") or ()]
        if gates:
            return f"pod {_name(pod)} is held back by scheduling gate {words.listed(gates)}"
    return None


def _unschedulable(found: Gathered, _world: World) -> _Answer:
    for pod in found.live_pods():
        told = condition(pod, "PodScheduled", "False")
        if told is not None and told.get("reason") == "Unschedulable":
            return f"pod {_name(pod)} cannot be scheduled: {_scheduler(told.get('message'))}"
    return None


def _image(found: Gathered, _world: World) -> _Answer:
    for pod, status, waiting in _waiting(found):
        if waiting.get("reason") in _PULLING:
            image = words.quoted(status.get("image"), 120)
            said = words.quoted(waiting.get("message") or waiting["reason"])
            return f"pod {_name(pod)} cannot pull image {image}: {said}"
    return None


def _container(found: Gathered, _world: World) -> _Answer:
    for pod, status, waiting in _waiting(found):
        if waiting.get("reason") in _BROKEN:
            which = f"container {status['name']} of pod {_name(pod)}"
            return f"{which} cannot be started: {words.quoted(waiting.get('message') or waiting['reason'])}"
    return None


def _crashing(found: Gathered, _world: World) -> _Answer:
    for pod, status, waiting in _waiting(found):
        if waiting.get("reason") == "CrashLoopBackOff":
            ended = (status.get("lastState") or {}).get("terminated") or {}
            times = wording.plural(int(status.get("restartCount") or 0), "restart")
            return f"pod {_name(pod)} crashes again and again ({times}): {_end(ended)}"
    return None


def _not_made(found: Gathered, _world: World) -> _Answer:
    """Why pods are missing, where those that there are do not say it."""
    if found.jobset is None or found.live_pods():
        return None
    told = next((each for each in found.about("Job", "JobSet") if each.get("reason") in _NOT_CREATED), None)
    message = words.quoted((told or {}).get("message"))
    if "exceeded quota" in message:
        return f"the quota of its namespace has no room for its pods: {message}"
    if _DENIED in message:
        return f"its pods were refused: {message}"
    return f"its pods cannot be made: {message}" if message else None


def _depends(found: Gathered, _world: World) -> _Answer:
    """Why a replicated job has not begun that waits for others."""
    spec, status = (found.jobset or {}).get("spec") or {}, (found.jobset or {}).get("status") or {}
    states = {each.get("name"): each for each in status.get("replicatedJobsStatus") or ()}
    for job in spec.get("replicatedJobs") or ():
        for other in job.get("dependsOn") or ():
            key = "succeeded" if other.get("status") == "Complete" else "ready"
            if not (states.get(other["name"]) or {}).get(key):
                until = "to complete" if key == "succeeded" else "to be ready"
                return f"replicated job {job['name']} waits for {other['name']} {until}"
    return None


def _starting(found: Gathered, _world: World) -> _Answer:
    for pod, _status, waiting in _waiting(found):
        return f"pod {_name(pod)} is being started: {words.quoted(waiting.get('reason') or 'its containers wait')}"
    pending = [pod for pod in found.live_pods() if (pod.get("status") or {}).get("phase", "Pending") == "Pending"]
    return f"pod {_name(pending[0])} waits for the scheduler" if pending else None


def _restarting(found: Gathered, _world: World) -> _Answer:
    return "is being started again by JobSet after a failure" if found.is_on("RestartingJobSet") else None


def _running(found: Gathered, world: World) -> _Answer:
    running = [pod for pod in found.pods if (pod.get("status") or {}).get("phase") == "Running"]
    if not running:
        return None
    ended = len(found.pods) - len(found.live_pods())
    text = f"runs: {wording.plural(len(running), 'pod')}{f', and {ended} ended' if ended else ''}"
    if world.right is False:
        return f"{text}; but {_sizes(world)}"
    return f"{text}; training with {wording.plural(world.reached, 'rank')}" if world.reached else text


def _no_pods(found: Gathered, _world: World) -> _Answer:
    if found.jobset is None:
        return None
    if found.pods:
        return "its pods have ended, and JobSet has not said yet what that means"
    return "waits for Kubernetes to make its pods"


class _Question(NamedTuple):
    """One row of the table."""

    code: str
    phase: Phase
    ask: Callable[[Gathered, World], _Answer]


TABLE: Final = (
    _Question("refused", "Refused", _refused),
    _Question("failed-by-world-size", "Failed", _failed_by_size),
    _Question("failed-by-weights", "Failed", _failed_by_verdict),
    _Question("failed", "Failed", _failed),
    _Question("finished", "Finished", _finished),
    _Question("being-deleted", "Waiting", _deleting),
    _Question("change-refused", "Waiting", _change_refused),
    _Question("suspended-by-kueue", "Suspended", _suspended_by_kueue),
    _Question("suspended", "Suspended", _suspended),
    _Question("runtime-missing", "Waiting", _unsupported),
    _Question("jobset-refused", "Waiting", _jobset_refused),
    _Question("jobset-not-made", "Waiting", _jobset_not_made),
    _Question("ended-by-guard", "Waiting", _guarded),
    _Question("waits-for-seat", "Waiting", _seats),
    _Question("image-not-pulled", "Waiting", _image),
    _Question("container-not-started", "Waiting", _container),
    _Question("crashing", "Waiting", _crashing),
    _Question("unschedulable", "Waiting", _unschedulable),
    _Question("gated", "Waiting", _gated),
    _Question("pods-not-made", "Waiting", _not_made),
    _Question("starting", "Starting", _starting),
    _Question("depends", "Waiting", _depends),
    _Question("restarting", "Waiting", _restarting),
    _Question("running", "Running", _running),
    _Question("no-pods", "Waiting", _no_pods),
)
"""The questions, in their order; the codes are stable, because programs read them."""


def _sizes(world: World) -> str:
    return f"the training had {wording.plural(world.reached or 0, 'rank')}, and {world.asked} were asked for"


def _scheduler(message: object) -> str:
    """Return why no node takes a pod, without what the scheduler says of preemption behind that."""
    said = str(message or "")
    for further in (" no new claims to deallocate", " preemption: "):
        said = said.partition(further)[0]
    return words.quoted(said.rstrip(","))


def _name(pod: Document) -> str:
    return str(pod["metadata"]["name"])


def _is_suspended(document: Document | None) -> bool:
    return ((document or {}).get("spec") or {}).get("suspend") is True


def _writer(document: Document) -> str:
    """Return who wrote `spec.suspend` last, by the name of the field manager."""
    for entry in reversed(document["metadata"].get("managedFields") or ()):
        if "f:suspend" in ((entry.get("fieldsV1") or {}).get("f:spec") or {}) and not entry.get("subresource"):
            return words.quoted(entry.get("manager"), 80)
    return ""


def _creation(found: Gathered) -> str:
    """Return why Trainer could not write the JobSet, by its newest Event and condition."""
    told: Mapping[str, Any] | None = condition(found.trainjob, "Failed")
    events = (each for each in found.about("TrainJob") if each.get("reason") == "TrainJobResourcesCreationFailed")
    return words.quoted((told or next(events, {})).get("message"), 600)


def _denied(message: str) -> str:
    """Return `by webhook NAME: WORDS` of a refusal, "" of another message."""
    by, _, said = message.partition(_DENIED)[2].partition('" denied the request: ')
    return f"by webhook {by}: {said or by}" if by else ""


def _waiting(found: Gathered) -> Iterator[tuple[Document, Document, Document]]:
    """Yield the containers that wait: the pod, the container's status, and its state."""
    for pod in found.live_pods():
        for status in containers(pod):
            waiting = (status.get("state") or {}).get("waiting")
            if waiting:
                yield pod, status, waiting


def _ends(found: Gathered, code: int | None = None) -> str:
    """Return how the first container of the job that failed ended, or that ended with this code."""
    for pod in found.pods:
        for status in containers(pod):
            for state in ("state", "lastState"):
                ended = (status.get(state) or {}).get("terminated") or {}
                if ended.get("exitCode") and code in (None, ended["exitCode"]):
                    return f"pod {_name(pod)}: {_end(ended)}"
    return ""


def _end(ended: Document) -> str:
    """Return how a container ended, and its last words."""
    code, reason = ended.get("exitCode"), words.quoted(ended.get("reason"), 80)
    how = reason if reason not in {"", "Error", "Completed"} else f"exit code {code}"
    if code == _GUARDED:
        how = f"exit code {code}, the guard's"
    said = words.last_words(ended.get("message"))
    return f"{how}: {said}" if said else how


def _after(text: str) -> str:
    return f"; {text}" if text else ""


def _findings(record: Mapping[str, Any]) -> str:
    found = [f"{each['field']}: {each['message']}" for each in record["findings"] if each["severity"] == "error"]
    return words.quoted("; ".join(found[:3]) or "the audit record does not say why")
