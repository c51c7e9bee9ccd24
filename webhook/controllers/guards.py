"""What the guard in a training image said at its end, read from the status of a pod.

A container's termination message is whatever its program wrote, and whoever may write the status of pods can put any
text there. So one is read line by line within a limit, only the two forms that the guard writes are taken, and only
numbers leave this module, and words of a closed set: no word of a message is ever kept or shown.

Source: images/guard/muster_guard, `trainings.Training.report` and `trainings.compare`; images/telemetry, `summaries`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, get_args

import msgspec
import orjson

from muster.webhook.cluster.readers import Document

__all__ = ["LIMIT", "VERDICTS", "Expected", "Guarded", "Sampling", "Verdict", "expected", "read", "sampling", "verdict"]

Verdict = Literal["weights-differ", "weights-refused"]
"""Why a training of the right size was ended: its sampler serves other weights, or refused those that it was sent."""
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)

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
class Guarded:
    """What the guard of one container said.

    Attributes:
        size: the number of ranks that the training had.
        expected: the number that it should have had; None where nobody said so.
        steps: the steps of the optimizer; None where the guard ended the training before its first step.
        seconds: how long the training took; None as with `steps`.
        verdict: why the guard ended it, apart from its size.
        sampling: what it said of its samples.
    """

    size: int
    expected: Expected | None
    steps: int | None = None
    seconds: float | None = None
    verdict: Verdict | None = None
    sampling: Sampling | None = None

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
    if found.get("schema") != _SCHEMA or not (size := _whole(found.get("worldSize"))):
        return None
    asked, steps, seconds = expected(found.get("expected")), _whole(found.get("steps")), found.get("wallSeconds")
    if asked is None and found.get("expected") is not None:
        return None
    timed = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 10**_MOST
    took = round(float(seconds), 2) if timed else None
    return Guarded(size, asked, steps, took, verdict(found.get("verdict")), sampling(found.get("sampling")))


def _failure(line: str) -> Guarded | None:
    """Read `muster: this training has 1 rank, but 2 were asked for (...`."""
    size, ranks, rest = line.removeprefix(_FAILED).partition(" rank")
    asked = rest.removeprefix("s").removeprefix(", but ")
    for verb in (" was asked for (", " were asked for ("):
        words, found, _ = asked.partition(verb)
        if line.startswith(_FAILED) and ranks and found and (number := _number(size)) and (said := expected(words)):
            return Guarded(number, said)
    return None


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
