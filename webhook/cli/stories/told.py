"""A story, as programs and people get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from muster.webhook.controllers.guards import Sampling, Verdict

__all__ = ["Decided", "Gateway", "Happened", "PodTold", "Seated", "Story", "Why", "World"]

Phase = Literal["Refused", "Suspended", "Waiting", "Starting", "Running", "Finished", "Failed", "Unknown"]
"""How far a job is, in one word."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job is where it is.

    Attributes:
        code: stable, for programs: `waits-for-seat`.
        phase: the phase that follows.
        text: one sentence, without a full stop.
    """

    code: str
    phase: Phase
    text: str


@dataclass(frozen=True, slots=True)
class World:
    """The number of ranks, and what else the guard reported.

    Attributes:
        asked: what was asked for: `2`, `2 to 4`; None where nobody said so.
        reached: what the guard reported; None as long as it has not.
        right: whether both agree; None where one of them is not known.
        source: `kept` by Muster, or read from a `pod` that is still there.
        pod: name of the pod that reported.
        steps: how many steps the training made.
        seconds: how long it took.
        verdict: why the guard ended it, apart from its size.
        sampling: what it said of its samples.
    """

    asked: str | None = None
    reached: int | None = None
    right: bool | None = None
    source: Literal["kept", "pod"] | None = None
    pod: str | None = None
    steps: int | None = None
    seconds: float | None = None
    verdict: Verdict | None = None
    sampling: Sampling | None = None


@dataclass(frozen=True, slots=True)
class PodTold:
    """One pod: what it does, and the last words of what failed in it."""

    name: str
    phase: str
    reason: str
    restarts: int
    node: str
    words: str


@dataclass(frozen=True, slots=True)
class Seated:
    """A shared claim that the job uses or waits for.

    Attributes:
        claim: name of the ResourceClaim.
        holders: who holds its seats: job or pod, how many, and for how many seconds.
        waiting: pods of this job that wait for a seat, and for how many seconds.
    """

    claim: str
    holders: tuple[tuple[str, int, float], ...]
    waiting: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of Muster about the job: from the audit log, an Event, or what Muster noted on the object."""

    source: Literal["audit", "event", "object"]
    time: str
    decision: str
    text: str
    rule: str


@dataclass(frozen=True, slots=True)
class Happened:
    """A condition of the TrainJob or the JobSet that is true."""

    object: str
    type: str
    reason: str
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class Gateway:
    """The Gateway of RL sessions whose engines a JobSet is.

    Attributes:
        name: of it.
        term: how many processes of that Gateway have had these engines, one after the other; None where nobody said so.
    """

    name: str
    term: int | None


@dataclass(frozen=True, slots=True)
class Story:
    """All that is told about one job; `age` in seconds, None for a job that was never created."""

    namespace: str
    name: str
    kind: str
    phase: Phase
    why: Why
    age: float | None
    world: World
    conditions: tuple[Happened, ...]
    pods: tuple[PodTold, ...]
    seats: tuple[Seated, ...]
    decisions: tuple[Decided, ...]
    unread: tuple[str, ...]
    gateway: Gateway | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the job failed or was refused, or its training did not have the size that was asked for."""
        return self.phase in {"Failed", "Refused"} or self.world.right is False

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self.phase in {"Failed", "Refused", "Finished"}
