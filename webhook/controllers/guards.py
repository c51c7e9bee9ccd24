"""What the guard of a training said: at its end in the status of a pod, and before that in the status of its TrainJob.

A container's termination message is whatever its program wrote, a metric of a TrainJob is whatever a pod of it posted
(KEP-2779), and whoever may write either status can put any text there. So a message is read line by line within a
limit, only the two forms that the guard writes are taken, and only numbers leave this module, and words of a closed
set: no word of a message or of a metric is ever kept or shown.

Source: images/guard/muster_guard, `trainings.Training.report`, `trainings.compare`, `measured`; images/telemetry,
`summaries`; trainer/v2 2.3.0 pkg/apis/trainer/v1alpha1, TrainerStatus.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, get_args

import msgspec
import orjson

from muster.webhook.cluster.readers import Document

__all__ = [
    "LIMIT",
    "PARTIAL",
    "VERDICTS",
    "Expected",
    "Guarded",
    "Measured",
    "Sampling",
    "Verdict",
    "expected",
    "from_status",
    "measured",
    "problem",
    "read",
    "sampling",
    "verdict",
]

Verdict = Literal[
    "size-differs",
    "device-shared",
    "gradients-not-shared",
    "devices-idle",
    "paths-shared",
    "weights-differ",
    "weights-refused",
]
"""What is wrong with a training, the worst of it; the last two are of its sampler, which serves other weights than were
trained, or refused those that it was sent."""
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
PARTIAL: Final[frozenset[Verdict]] = frozenset(VERDICTS[:4])
"""Verdicts on a training that does not train, as one, on all devices that it was given."""
Gradients = Literal["shared", "not-shared", "sharded"]
_GRADIENTS: Final[tuple[Gradients, ...]] = get_args(Gradients)

LIMIT: Final = 4096
"""Characters of a termination message that are read; the kubelet keeps as many bytes."""

_SCHEMA = "muster.dev/training/v1"
_FAILED = "muster: this training has "
_MOST = 10  # digits of a number


class _Terminated(msgspec.Struct):
    message: str | None = None


class _State(msgspec.Struct):
    terminated: _Terminated = msgspec.field(default_factory=_Terminated)


class _Container(msgspec.Struct, rename="camel"):
    state: _State = msgspec.field(default_factory=_State)
    last_state: _State = msgspec.field(default_factory=_State)


class _PodStatus(msgspec.Struct, rename="camel"):
    container_statuses: tuple[_Container, ...] = ()
    init_container_statuses: tuple[_Container, ...] = ()  # a sidecar is an init container


class _Pod(msgspec.Struct):
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _Metric(msgspec.Struct):
    name: str
    value: str


class _TrainerStatus(msgspec.Struct, rename="camel"):
    metrics: tuple[_Metric, ...] = ()
    last_updated_time: str = ""


class _JobStatus(msgspec.Struct, rename="camel"):
    trainer_status: _TrainerStatus = msgspec.field(default_factory=_TrainerStatus)


class _TrainJob(msgspec.Struct):
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)


@dataclass(frozen=True, slots=True)
class Expected:
    """The world sizes that were asked for: from `low` to `high`, None for no upper limit."""

    low: int
    high: int | None

    def holds(self, size: int) -> bool:
        """Whether a training of this size is what was asked for."""
        return self.low <= size and (self.high is None or size <= self.high)

    def __str__(self) -> str:
        if self.low == self.high:
            return str(self.low)
        return f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a training by reinforcement learning said of its samples, most of it as it was last; None is not known.

    Attributes:
        reward: the mean of a step.
        syncs: how many times the sampler was sent weights.
        sync_seconds: how long that took, in the mean.
        difference: mean difference of log probabilities, the trainer's and the sampler's.
        ratio: mean importance ratio.
        staleness: mean number of versions by which samples were behind.
        dropped: samples that were thrown away, in all.
    """

    reward: float | None = None
    syncs: int | None = None
    sync_seconds: float | None = None
    difference: float | None = None
    ratio: float | None = None
    staleness: float | None = None
    dropped: int | None = None

    def written(self) -> dict[str, float]:
        """Return it as JSON, without what is not known."""
        return {_KEYS[name]: value for name, value in asdict(self).items() if value is not None}


_KEYS = {each.name: each.name for each in fields(Sampling)} | {"sync_seconds": "syncSeconds"}


@dataclass(frozen=True, slots=True)
class Measured:
    """What the guard measured of a running training; None is what it did not observe.

    Attributes:
        nodes: how many nodes its ranks are on.
        used, visible, shared, idle: devices that ranks train on, that are visible to them, that several ranks train on,
            and that no rank touched; of one pod in the report of a pod, of all pods in the status of a TrainJob.
        gradients: whether all ranks have the same gradients, or shards of them.
        paths: files that ranks of different nodes have both saved.
        first_step_seconds: from the start of the process to the end of the first step.
        steps_per_second, tokens_per_second: since then.
    """

    nodes: int | None = None
    used: int | None = None
    visible: int | None = None
    shared: int | None = None
    idle: int | None = None
    gradients: Gradients | None = None
    paths: int | None = None
    first_step_seconds: float | None = None
    steps_per_second: float | None = None
    tokens_per_second: float | None = None

    def written(self) -> dict[str, int | float | str]:
        """Return it as JSON, without what was not observed."""
        return {_MEMBERS[name]: value for name, value in asdict(self).items() if value is not None}


_MEMBERS: Final[Mapping[str, str]] = {
    "nodes": "nodes",
    "used": "devices",
    "visible": "devicesVisible",
    "shared": "devicesShared",
    "idle": "devicesIdle",
    "gradients": "gradients",
    "paths": "writes",
    "first_step_seconds": "firstStepSeconds",
    "steps_per_second": "stepsPerSecond",
    "tokens_per_second": "tokensPerSecond",
}
"""The members of `Measured` as JSON; the guard's report has the four numbers of devices in an object of their own."""
_METRICS: Final[Mapping[str, str]] = {
    "muster.dev/world-size": "worldSize",
    "muster.dev/expected-world-size": "expected",
    "muster.dev/nodes": "nodes",
    "muster.dev/devices": "devices",
    "muster.dev/devices-shared": "devicesShared",
    "muster.dev/devices-idle": "devicesIdle",
    "muster.dev/gradients": "gradients",
    "muster.dev/paths-shared": "writes",
    "muster.dev/first-step-seconds": "firstStepSeconds",
    "muster.dev/steps-per-second": "stepsPerSecond",
    "muster.dev/tokens-per-second": "tokensPerSecond",
    "muster.dev/verdict": "verdict",
}
_MOST_METRICS, _WORDS = 256, ("expected", "gradients", "verdict")
_FIGURE = re.compile(r"[0-9]{1,10}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Guarded:
    """What the guard of one container said.

    Attributes:
        size: the number of ranks that the training had.
        expected: the number that it should have had; None where nobody said so.
        steps: the steps of the optimizer; None where the guard ended the training before its first step.
        seconds: how long the training took; None as with `steps`.
        verdict: what is wrong with it.
        sampling: what it said of its samples.
        measured: what it measured.
    """

    size: int
    expected: Expected | None
    steps: int | None = None
    seconds: float | None = None
    verdict: Verdict | None = None
    sampling: Sampling | None = None
    measured: Measured = Measured()

    @property
    def is_right(self) -> bool | None:
        """Whether the size is the one that was asked for; None where nobody said one."""
        return self.expected.holds(self.size) if self.expected else None


def read(pod: Document) -> Guarded | None:
    """Return what the guard said last in a pod, as it is now or before its container was started again.

    Where several containers of the pod speak, one of a wrong size counts before the others.
    """
    found = [said for message in _messages(pod) if (said := _last(message)) is not None]
    return min(found, key=lambda each: each.is_right is not False, default=None)


def from_status(trainjob: Document) -> tuple[Guarded, str] | None:
    """Return what the guard posted into the status of a TrainJob, and when Trainer took it, RFC 3339 in UTC."""
    try:
        status = msgspec.convert(trainjob, _TrainJob).status.trainer_status
    except msgspec.ValidationError:  # no API server sends such a TrainJob
        return None
    found: dict[str, object] = {}
    for each in status.metrics[:_MOST_METRICS]:
        if key := _METRICS.get(each.name):
            found[key] = each.value if key in _WORDS else _figure(each.value)
    said = _guarded(found)
    return None if said is None else (said, status.last_updated_time)


def problem(said: Guarded) -> str | None:
    """Return what is wrong with a training, and what to do, as one sentence without a full stop; None for nothing."""
    seen, ranks = said.measured, f"the training has {_plural(said.size, 'rank')}"
    wrong = f"but {said.expected} {'was' if str(said.expected) == '1' else 'were'} asked for"
    if said.is_right:
        wrong = f"which are on {_plural(seen.nodes or 0, 'node')}, fewer than were asked for"
    idle, all_of_them = seen.idle or 0, (seen.idle or 0) + (seen.used or 0)
    texts: Mapping[Verdict, str] = {
        "size-differs": f"{ranks}, {wrong}; launch it with torchrun, or let Muster do so",
        "device-shared": f"{ranks}, and several of them train on one device; give each rank a device of its own:"
        ' call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])), or start fewer ranks',
        "gradients-not-shared": f"{ranks}, which train apart: their gradients of one parameter differ; train the"
        " model that DistributedDataParallel or FSDP returns, and leave no_sync before the optimizer's step",
        "devices-idle": f"{ranks}, and {idle} of {all_of_them} devices have no memory of any rank; start a rank for"
        " each device, or ask for fewer",
        "paths-shared": f"ranks of several nodes have saved over one another ({_plural(seen.paths or 0, 'file')});"
        " let one rank of the training save, or give each node a folder of its own",
        "weights-differ": "the sampler of the training serves other weights than were trained",
        "weights-refused": "the sampler of the training refused the weights that it was sent",
    }
    return texts[said.verdict] if said.verdict else None


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def expected(text: object) -> Expected | None:
    """Read `2`, `2 to 4` or `2 or more`; None for anything else."""
    if not isinstance(text, str) or len(text) > 3 * _MOST:
        return None
    words = text.split(" ")
    low = _number(words[0])
    high = {"": low, "or more": None}.get(" ".join(words[1:]), 0)
    if len(words) == 3 and words[1] == "to":
        high = _number(words[2])
    return Expected(low, high) if low and (high is None or high >= low) else None


def verdict(value: object) -> Verdict | None:
    """Return a verdict that is known."""
    return next((each for each in VERDICTS if each == value), None)


def sampling(value: object) -> Sampling | None:
    """Read numbers about samples; what is not a number of a sensible size is left out, and of nothing comes None."""
    raw = value if isinstance(value, dict) else {}
    found: dict[str, Any] = {name: _measured(raw.get(key)) for name, key in _KEYS.items()}
    found |= {name: _whole(raw.get(name)) for name in ("syncs", "dropped")}
    made = Sampling(**found)
    return made if made.written() else None


def measured(value: object) -> Measured:
    """Read what was measured; what is not a number of a sensible size or a known word is left out."""
    raw = value if isinstance(value, dict) else {}
    found: dict[str, Any] = {name: _whole(raw.get(_MEMBERS[name])) for name in _COUNTS}
    found |= {name: _measured(raw.get(_MEMBERS[name])) for name in _RATES}
    word = raw.get("gradients")
    return Measured(**found, gradients=next((each for each in _GRADIENTS if each == word), None))


_COUNTS = ("nodes", "used", "visible", "shared", "idle", "paths")
_RATES = ("first_step_seconds", "steps_per_second", "tokens_per_second")


def _messages(pod: Document) -> Iterator[str]:
    """Yield the newest termination message of each container."""
    try:
        status = msgspec.convert(pod, _Pod).status
    except msgspec.ValidationError:  # no API server sends such a pod
        return
    for each in (*status.container_statuses, *status.init_container_statuses):
        now, before = each.state.terminated.message, each.last_state.terminated.message
        newest = before if now is None else now
        if newest is not None:
            yield newest[:LIMIT]


def _last(message: str) -> Guarded | None:
    """Return the last line that the guard wrote; a launcher that starts its ranks again leaves several."""
    lines = (_report(line) or _failure(line) for line in reversed(message.splitlines()))
    return next((each for each in lines if each is not None), None)


def _report(line: str) -> Guarded | None:
    if not line.startswith("{"):
        return None
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return _guarded(found | _flat(found.get("devices"))) if found.get("schema") == _SCHEMA else None


def _flat(devices: object) -> dict[str, object]:
    raw = devices if isinstance(devices, dict) else {}
    return {_MEMBERS[name]: raw.get(name) for name in ("used", "visible", "shared", "idle")}


def _guarded(found: Mapping[str, object]) -> Guarded | None:
    """Return what was said in the members of a report; None where that is no report of a training."""
    if not (size := _whole(found.get("worldSize"))):
        return None
    asked, steps, seconds = expected(found.get("expected")), _whole(found.get("steps")), found.get("wallSeconds")
    if asked is None and found.get("expected") is not None:
        return None
    took = None
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 10**_MOST:
        took = round(float(seconds), 2)
    word, samples = verdict(found.get("verdict")), sampling(found.get("sampling"))
    return Guarded(size, asked, steps, took, word, samples, measured(found))


def _failure(line: str) -> Guarded | None:
    """Read `muster: this training has 1 rank, but 2 were asked for (...`."""
    size, ranks, rest = line.removeprefix(_FAILED).partition(" rank")
    asked = rest.removeprefix("s").removeprefix(", but ")
    for verb in (" was asked for (", " were asked for ("):
        words, found, _ = asked.partition(verb)
        if line.startswith(_FAILED) and ranks and found and (number := _number(size)) and (said := expected(words)):
            return Guarded(number, said, verdict="size-differs")
    return None


def _figure(text: str) -> int | float | None:
    """Return the number that a metric is."""
    if not _FIGURE.fullmatch(text):
        return None
    return float(text) if "." in text else int(text)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MOST else 0


def _whole(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**_MOST
    return value if whole and isinstance(value, int) else None


def _measured(value: object) -> float | None:
    """Return a number with six digits, which are more than anybody reads."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 10**_MOST:
        return None
    return float(f"{value:.6g}") if math.isfinite(value) else None
