"""Why a job is where it is, in one sentence: a table of questions, of which the first with an answer counts.

What ended comes first, then what holds the whole job, then what keeps its pods from being made, placed and started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from muster.audit import scanner
from muster.strategies.documents import names
from muster.strategies.documents.decoding import items, member
from muster.strategies.platform.seats import Seat, SeatsError, parse_seats
from muster.webhook.cli.observed import Observed, condition, containers, seconds_since
from muster.webhook.cli.problems import age, one_line, plural
from muster.webhook.cluster.readers import Document
from muster.webhook.controllers import guards

__all__ = [
    "TABLE",
    "Diagnosis",
    "Holder",
    "claims",
    "diagnose",
    "holders",
    "is_gated",
    "last_words",
    "listed",
    "quoted",
    "seats",
    "waits_for",
]


_QUEUE = "kueue.x-k8s.io/queue-name"
_PULLING = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_BROKEN = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError")
_NOT_CREATED = ("FailedCreate", "JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed")
_DENIED = 'admission webhook "'
_RESTARTING = "is being started again by JobSet after a failure"
_GUARDED = 78  # exit code of the guard
_VERDICTS: Final[Mapping[guards.Verdict, str]] = {
    "weights-differ": "its sampler served other weights than were trained",
    "weights-refused": "its sampler refused the weights that it was sent",
    "device-shared": "several of its ranks trained on one device",
    "gradients-not-shared": "its ranks trained apart, with gradients of their own",
}
"""What the guard ends a training for, apart from its size."""

Phase = Literal["Refused", "Suspended", "Waiting", "Starting", "Running", "Finished", "Failed", "Unknown"]
"""How far a job is, in one word."""
_Answer: TypeAlias = str | None


class Diagnosis(NamedTuple):
    """The code is stable, for programs; the text is one sentence without a full stop."""

    code: str
    phase: Phase
    text: str


def diagnose(found: Observed) -> Diagnosis:
    """Return why the job is where it is."""
    for code, phase, ask in TABLE:
        text = ask(found)
        if text:
            return Diagnosis(code, phase, text)
    return Diagnosis("unknown", "Unknown", "nothing in the cluster says what it waits for")


def _refused(found: Observed) -> _Answer:
    if found.job:
        return None
    for event in found.about("TrainJob", "JobSet"):
        if event.get("reason") == "MusterDenied":
            return f"was refused when somebody created it: {quoted(event.get('message'))}"
    for record in reversed(found.records):
        if record["decision"] == "denied":
            said = [f"{each['field']}: {each['message']}" for each in record["findings"] if each["severity"] == "error"]
            why = quoted("; ".join(said[:3]) or "the audit record does not say why")
            return f"was refused when somebody created it: {why}"
    return None


def _failed_by_size(found: Observed) -> _Answer:
    is_wrong = found.is_right is False and found.is_on("Failed")
    return f"failed because {_sizes(found)}; the guard ended it" if is_wrong else None


def _failed_by_weights(found: Observed) -> _Answer:
    return _failed_by_verdict(found) if found.verdict in ("weights-differ", "weights-refused") else None


def _failed_by_verdict(found: Observed) -> _Answer:
    why = _VERDICTS.get(found.verdict) if found.verdict and found.is_on("Failed") else None
    sure = (found.verdict or "").startswith("weights") or _GUARDED in {end.get("exitCode") for _, end in _ends(found)}
    return f"failed because {why}; the guard ended it{_ended(found, _GUARDED)}" if why and sure else None


def _failed(found: Observed) -> _Answer:
    said = condition(found.trainjob, "Failed") or condition(found.jobset, "Failed")
    return f"failed: {quoted(said.get('message')) or quoted(said.get('reason'))}{_ended(found)}" if said else None


def _finished(found: Observed) -> _Answer:
    if not (found.is_on("Complete") or found.is_on("Completed")):
        return None
    if found.is_right is False:
        return f"finished, but {_sizes(found)}"
    if found.verdict:
        return f"finished, but {_problem(found)}"
    ranks = f" with {plural(found.report.said.size, 'rank')}" if found.report and found.report.said.size else ""
    return f"finished{ranks}{', as was asked for' if found.is_right else ''}"


def _deleting(found: Observed) -> _Answer:
    metadata = member(found.job, "metadata")
    if not metadata.get("deletionTimestamp"):
        return None
    holding = listed([quoted(each, 80) for each in metadata.get("finalizers", ())])
    return f"is being deleted{f', and waits for {holding}' if holding else ''}"


def _suspended_by_kueue(found: Observed) -> _Answer:
    queue = member(found.job, "metadata", "labels").get(_QUEUE)
    if not queue or not _is_suspended(found.job):
        return None
    return f"is suspended: Kueue has not admitted it from queue {quoted(queue, 80)}, which waits for quota"


def _suspended(found: Observed) -> _Answer:
    for kind, document in (("TrainJob", found.trainjob), ("JobSet", found.jobset)):
        if _is_suspended(document):
            writer = _writer(document)
            by = f" by {writer}" if writer else ""
            if kind == found.kind:
                return f"is suspended{by}: spec.suspend is true"
            return f"its {kind} is suspended{by}, though its {found.kind} is not: spec.suspend is true"
    return None


def _runtime_missing(found: Observed) -> _Answer:
    message = "" if found.jobset or not found.trainjob else _creation(found)
    return f"its runtime is missing: {message}" if "not found" in message and "untime" in message else None


def _change_refused(found: Observed) -> _Answer:
    """Why a TrainJob and its JobSet disagree; the Event of a refusal stays for an hour, also when it is long mended."""
    wanted = _is_suspended(found.trainjob)
    if not found.trainjob or not found.jobset or wanted == _is_suspended(found.jobset):
        return None
    by = _denied(_creation(found))
    what = "suspended" if wanted else "resumed"
    return f"is to be {what}, but the change of its JobSet was refused {by}" if by else None


def _jobset_refused(found: Observed) -> _Answer:
    by = _denied(_creation(found)) if found.trainjob and not found.jobset else ""
    return f"its JobSet was refused {by}" if by else None


def _jobset_not_made(found: Observed) -> _Answer:
    if not found.trainjob or found.jobset:
        return None
    message = _creation(found)
    return f"Trainer cannot make its JobSet: {message}" if message else "waits for Trainer to make its JobSet"


def _guarded(found: Observed) -> _Answer:
    """Why a training begins again and again that the guard ends."""
    codes = {ended.get("exitCode") for _, ended in _ends(found)}
    runs = any(member(status, "state", "running") for pod in found.live_pods for status in containers(pod))
    if found.is_right is not False or _GUARDED not in codes or runs:
        return None
    return f"the guard ended it: {_sizes(found)}; Kubernetes starts it again until its backoffLimit is used up"


def _waits_for_seat(found: Observed) -> _Answer:
    """For which seat the job waits, and behind whom."""
    pod = next(filter(is_gated, found.live_pods), None)
    if pod is None:
        return None
    name = pod["metadata"]["name"]
    events = (each for each in found.about("Pod") if each["involvedObject"].get("name") == name)
    ours = (each.get("reason") for each in events if member(each, "source").get("component") == "muster")
    advice = "; raise maxSessions, or use fewer pods" if next(ours, "") == "NeverWhole" else ""
    for claim in found.claims:
        if waits_for(pod, claim):
            held = holders(found, claim)
            who = [f"{each.name}{seats(each.seats, ' seats')} for {age(each.seconds)}" for each in held]
            by = f", behind {listed(who)}" if who else ", which Muster has not given yet"
            return f"waits for a seat on ResourceClaim {claim['metadata']['name']}{by}{advice}"
    return f"pod {name} waits for a seat{advice}"


def _gated(found: Observed) -> _Answer:
    for pod in found.live_pods:
        gates = [quoted(each.get("name"), 80) for each in items(member(pod, "spec"), "schedulingGates")]
        if gates:
            return f"pod {_name(pod)} is held back by scheduling gate {listed(gates)}"
    return None


def _unschedulable(found: Observed) -> _Answer:
    for pod in found.live_pods:
        told = condition(pod, "PodScheduled", "False")
        if told.get("reason") == "Unschedulable":
            said = str(told.get("message") or "")
            for further in (" no new claims to deallocate", " preemption: "):  # what is behind says nothing of the pod
                said = said.partition(further)[0]
            return f"pod {_name(pod)} cannot be scheduled: {quoted(said.rstrip(','))}"
    return None


def _image(found: Observed) -> _Answer:
    for pod, status, waiting in _waiting(found, _PULLING):
        said = quoted(waiting.get("message") or waiting["reason"])
        return f"pod {_name(pod)} cannot pull image {quoted(status.get('image'), 120)}: {said}"
    return None


def _container(found: Observed) -> _Answer:
    for pod, status, waiting in _waiting(found, _BROKEN):
        said = quoted(waiting.get("message") or waiting["reason"])
        return f"container {status['name']} of pod {_name(pod)} cannot be started: {said}"
    return None


def _crashing(found: Observed) -> _Answer:
    for pod, status, _ in _waiting(found, ("CrashLoopBackOff",)):
        times = plural(int(status.get("restartCount") or 0), "restart")
        end = _end(member(status, "lastState", "terminated"))
        return f"pod {_name(pod)} crashes again and again ({times}): {end}"
    return None


def _not_made(found: Observed) -> _Answer:
    """Why pods are missing, where those that there are do not say it."""
    if not found.jobset or found.live_pods:
        return None
    events = (each for each in found.about("Job", "JobSet") if each.get("reason") in _NOT_CREATED)
    message = quoted(next(events, {}).get("message"))
    if "exceeded quota" in message:
        return f"the quota of its namespace has no room for its pods: {message}"
    return f"its pods {'were refused' if _DENIED in message else 'cannot be made'}: {message}" if message else None


def _depends(found: Observed) -> _Answer:
    """Why a replicated job has not begun that waits for others."""
    states = {each.get("name"): each for each in items(member(found.jobset, "status"), "replicatedJobsStatus")}
    for job in items(member(found.jobset, "spec"), "replicatedJobs"):
        for other in items(job, "dependsOn"):
            done = other.get("status") == "Complete"
            if not member(states, other["name"]).get("succeeded" if done else "ready"):
                return f"replicated job {job['name']} waits for {other['name']} to {'complete' if done else 'be ready'}"
    return None


def _starting(found: Observed) -> _Answer:
    for pod, _, waiting in _waiting(found):
        return f"pod {_name(pod)} is being started: {quoted(waiting.get('reason') or 'its containers wait')}"
    pending = (pod for pod in found.live_pods if member(pod, "status").get("phase", "Pending") == "Pending")
    return next((f"pod {_name(pod)} waits for the scheduler" for pod in pending), None)


def _running(found: Observed) -> _Answer:
    running = [pod for pod in found.pods if member(pod, "status").get("phase") == "Running"]
    if not running:
        return None
    ended = len(found.pods) - len(found.live_pods)
    text = f"runs: {plural(len(running), 'pod')}{f', and {ended} ended' if ended else ''}"
    if found.is_right is False:
        return f"{text}; but {_sizes(found)}"
    if found.verdict:
        return f"{text}; but {_problem(found)}"
    size = found.report.said.size if found.report else 0
    return f"{text}; training with {plural(size, 'rank')}" if size else text


def _no_pods(found: Observed) -> _Answer:
    if not found.jobset:
        return None
    ended = "its pods have ended, and JobSet has not said yet what that means"
    return ended if found.pods else "waits for Kubernetes to make its pods"


class _Question(NamedTuple):
    code: str
    phase: Phase
    ask: Callable[[Observed], _Answer]


TABLE: Final = (
    _Question("refused", "Refused", _refused),
    _Question("failed-by-world-size", "Failed", _failed_by_size),
    _Question("failed-by-weights", "Failed", _failed_by_weights),
    _Question("failed-by-guard", "Failed", _failed_by_verdict),
    _Question("failed", "Failed", _failed),
    _Question("finished", "Finished", _finished),
    _Question("being-deleted", "Waiting", _deleting),
    _Question("change-refused", "Waiting", _change_refused),
    _Question("suspended-by-kueue", "Suspended", _suspended_by_kueue),
    _Question("suspended", "Suspended", _suspended),
    _Question("runtime-missing", "Waiting", _runtime_missing),
    _Question("jobset-refused", "Waiting", _jobset_refused),
    _Question("jobset-not-made", "Waiting", _jobset_not_made),
    _Question("ended-by-guard", "Waiting", _guarded),
    _Question("waits-for-seat", "Waiting", _waits_for_seat),
    _Question("image-not-pulled", "Waiting", _image),
    _Question("container-not-started", "Waiting", _container),
    _Question("crashing", "Waiting", _crashing),
    _Question("unschedulable", "Waiting", _unschedulable),
    _Question("gated", "Waiting", _gated),
    _Question("pods-not-made", "Waiting", _not_made),
    _Question("starting", "Starting", _starting),
    _Question("depends", "Waiting", _depends),
    _Question("restarting", "Waiting", lambda found: _RESTARTING if found.is_on("RestartingJobSet") else None),
    _Question("running", "Running", _running),
    _Question("no-pods", "Waiting", _no_pods),
)
"""The questions, in their order; the codes are stable, because programs read them."""


def is_gated(pod: Document) -> bool:
    """Whether a pod has Muster's gate, and so no seat yet."""
    return any(each.get("name") == names.SEAT_GATE for each in items(member(pod, "spec"), "schedulingGates"))


def claims(pod: Document) -> set[str]:
    """Return the names of the ResourceClaims of a pod."""
    return {str(each.get("resourceClaimName") or "") for each in items(member(pod, "spec"), "resourceClaims")} - {""}


def waits_for(pod: Document, claim: Document) -> bool:
    """Whether a pod names a shared claim and has no seat on it."""
    return claim["metadata"]["name"] in claims(pod) and pod["metadata"].get("uid") not in _held(claim)


class Holder(NamedTuple):
    """Who has seats on a claim, how many, and for how many seconds."""

    name: str
    seats: int
    seconds: int


def holders(found: Observed, claim: Document) -> list[Holder]:
    """Return the jobs and pods that have seats on a claim, how many and for how long: the longest comes first."""
    called = [(f"job {seat.job}" if seat.job else f"pod {seat.pod}", seat.since) for seat in _held(claim).values()]
    counts = Counter(name for name, _ in called)
    since = {name: min(moment for each, moment in called if each == name) for name in counts}
    return [
        Holder(quoted(name, 80), counts[name], int(seconds_since(since[name], found.now)))
        for name in sorted(counts, key=lambda name: since[name])
    ]


def seats(count: int, unit: str) -> str:
    """Return ` (2 seats)` of a holder of several."""
    return f" ({count}{unit})" if count > 1 else ""


def _held(claim: Document) -> dict[str, Seat]:
    try:
        return parse_seats(member(claim, "metadata", "annotations").get(names.SEATS_ANNOTATION, ""))
    except SeatsError:
        return {}


def _sizes(found: Observed) -> str:
    size = found.report.said.size if found.report else 0
    return f"the training had {plural(size, 'rank')}, and {found.asked} were asked for"


def _problem(found: Observed) -> str:
    """Return what is wrong with the training, without what to do."""
    text = guards.problem(found.report.said) if found.report else None
    return (text or "").partition("; ")[0]


def _name(pod: Document) -> str:
    return str(pod["metadata"]["name"])


def _is_suspended(document: Document) -> bool:
    return member(document, "spec").get("suspend") is True


def _writer(document: Document) -> str:
    """Return who wrote `spec.suspend` last, by the name of the field manager."""
    for entry in reversed(items(document["metadata"], "managedFields")):
        if "f:suspend" in member(entry, "fieldsV1", "f:spec") and not entry.get("subresource"):
            return quoted(entry.get("manager"), 80)
    return ""


def _creation(found: Observed) -> str:
    """Return why Trainer could not write the JobSet, by its newest Event and condition."""
    events = (each for each in found.about("TrainJob") if each.get("reason") == "TrainJobResourcesCreationFailed")
    return quoted((condition(found.trainjob, "Failed") or next(events, {})).get("message"), 600)


def _denied(message: str) -> str:
    """Return `by webhook NAME: WORDS` of a refusal, "" of another message."""
    by, _, said = message.partition(_DENIED)[2].partition('" denied the request: ')
    return f"by webhook {by}: {said or by}" if by else ""


def _waiting(found: Observed, reasons: tuple[str, ...] = ()) -> Iterator[tuple[Document, Document, Document]]:
    """Yield the containers that wait, for these reasons: the pod, the container's status, and its state."""
    for pod in found.live_pods:
        for status in containers(pod):
            waiting = member(status, "state", "waiting")
            if waiting and (not reasons or waiting.get("reason") in reasons):
                yield pod, status, waiting


def _ends(found: Observed) -> Iterator[tuple[Document, Document]]:
    """Yield how containers ended, each with its pod."""
    for pod in found.pods:
        for status in containers(pod):
            yield from ((pod, member(status, state, "terminated")) for state in ("state", "lastState"))


def _ended(found: Observed, code: int | None = None) -> str:
    """Return how the first container of the job that failed ended, or that ended with this code."""
    for pod, ended in _ends(found):
        if ended.get("exitCode") and code in (None, ended["exitCode"]):
            return f"; pod {_name(pod)}: {_end(ended)}"
    return ""


def _end(ended: Document) -> str:
    """Return how a container ended, and its last words."""
    code, reason = ended.get("exitCode"), quoted(ended.get("reason"), 80)
    how = f"exit code {code}" if reason in ("", "Error", "Completed") else reason
    if code == _GUARDED:
        how = f"exit code {code}, the guard's"
    said = last_words(ended.get("message"))
    return f"{how}: {said}" if said else how


_SHOWN = 300  # characters of a quotation
_READ = 4096
_NAMED = 3  # names in a list


def quoted(text: object, longest: int = _SHOWN) -> str:
    """Return what a controller, the scheduler or a webhook said: one line without known tokens and a full stop."""
    line = one_line(scanner.text(str(text or ""), _READ)).rstrip(".")
    return line if len(line) <= longest else line[: longest - 1] + "…"


def last_words(text: object) -> str:
    """Return the last line of what a container left."""
    lines = [line for line in str(text or "")[-_READ:].splitlines() if line.strip()]
    return quoted(lines[-1]) if lines else ""


def listed(names: Sequence[str]) -> str:
    """Return `a, b, c and 2 more`."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
