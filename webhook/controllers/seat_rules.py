"""Which pods get, keep and lose the seats of one shared claim: pure rules over what was read.

The seats are one annotation of the claim, so that a single compare-and-swap decides about all of them. A seat belongs
to a pod, by its uid; it is written before the pod's scheduling gate is removed, and taken back only when the pod is
known to be deleted or to have ended. `status.reservedFor` is never counted: its limit is fixed at 256, and it keeps
ended pods.

Jobs are seated whole, oldest first: a job starts when there are seats for all of its pods, because half of a job would
hold an idle device while it waits for the other half. A younger job may pass an older one that does not fit yet, until
the older one has waited for `PATIENCE`.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from muster.strategies.platform.seats import Seat
from muster.webhook.controllers import views

__all__ = ["PATIENCE", "RESERVED", "Claim", "Settlement", "settle"]

PATIENCE = datetime.timedelta(minutes=5)
"""Time after which younger pods may not pass a waiting pod any more."""
RESERVED = datetime.timedelta(minutes=1)
"""Time for which seats are kept for pods of a started job that do not exist yet."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known about one claim and its jobs.

    Attributes:
        seats: the taken seats, by uid of the pod.
        limit: the number of seats.
        drains: whether only jobs that have a seat here get further ones.
        sizes: number of pods of each job when all that have not succeeded yet run, by name; a job may be missing.
    """

    seats: Mapping[str, Seat]
    limit: int
    drains: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settlement:
    """The result of a settlement.

    Attributes:
        seats: the taken seats, by uid.
        seated: uids of the pods that got a seat.
        waiting: pods that got no seat, the next one first.
        never: names of the jobs that need more seats than there are, so that all of their pods never run together.
    """

    seats: Mapping[str, Seat]
    seated: tuple[str, ...]
    waiting: tuple[views.Pod, ...]
    never: frozenset[str] = frozenset()


def settle(
    claim: Claim,
    waiting: Iterable[views.Pod],
    now: datetime.datetime,
    *,
    ended: Collection[str] = (),
    uninvited: Iterable[views.Pod] = (),
) -> Settlement:
    """Give and take seats.

    Args:
        claim: the claim with its seats.
        waiting: gated pods without a seat.
        now: the time, with a time zone.
        ended: uids with a seat whose pods are known to be deleted or to have ended.
        uninvited: live pods without a gate and without a seat. They use the device, so they get a seat even when none
            is left; no other pod gets one until they are gone.
    """
    taken = _stamp(now)
    seats = {uid: seat for uid, seat in claim.seats.items() if uid not in ended}
    seats |= {pod.uid: Seat(pod.name, pod.job, taken) for pod in uninvited}
    jobs = _Jobs(claim, seats, sorted(waiting, key=_age), now)
    started, others = jobs.groups()
    seated: list[views.Pod] = []
    left: list[views.Pod] = []
    free = max(claim.limit - len(seats), 0)
    for group in started:
        seated += group.pods[:free]
        left += group.pods[free:]
        free -= min(len(group.pods), free)
    free = 0 if claim.drains else max(free - jobs.reserved(), 0)
    for group in others:
        if group.wants <= free:
            seated += group.pods
            free -= group.wants
        else:
            left += group.pods
            free = 0 if group.is_overdue(now) else free
    seats |= {pod.uid: Seat(pod.name, pod.job, taken) for pod in seated}
    return Settlement(seats, tuple(pod.uid for pod in seated), tuple(left), jobs.never)


@dataclass(frozen=True, slots=True)
class _Group:
    """Pods that are seated together: the waiting pods of a job, or a single pod without a job.

    Attributes:
        pods: oldest first, at least one.
        to_come: number of further pods of the job that do not exist yet.
        part: whether the job can never be seated whole.
    """

    pods: tuple[views.Pod, ...]
    to_come: int = 0
    part: bool = False

    @property
    def wants(self) -> int:
        return len(self.pods) + self.to_come

    def is_overdue(self, now: datetime.datetime) -> bool:
        return self.pods[0].created < _stamp(now - PATIENCE)

    def order(self, now: datetime.datetime) -> tuple[bool, tuple[str, str, str]]:
        """Whole jobs come before parts of jobs that never fit, unless these have waited for long."""
        return self.part and not self.is_overdue(now), _age(self.pods[0])


class _Jobs:
    """The jobs of one claim: which wait, which have seats, and how many each needs.

    Attributes:
        never: see `Settlement`.
    """

    def __init__(
        self, claim: Claim, seats: Mapping[str, Seat], waiting: Iterable[views.Pod], now: datetime.datetime
    ) -> None:
        self._now = now
        self._seats = [seat for seat in seats.values() if seat.job]
        self._held = Counter(seat.job for seat in self._seats)
        self._waiting: dict[str, list[views.Pod]] = {}
        for pod in waiting:
            self._waiting.setdefault(pod.job or f"/{pod.uid}", []).append(pod)
        there = {job: self._held[job] + len(self._waiting.get(job, ())) for job in (*self._held, *self._waiting)}
        self._sizes = {job: max(claim.sizes.get(job, 0), count) for job, count in there.items()}
        self.never = frozenset(job for job, size in self._sizes.items() if size > claim.limit)

    def groups(self) -> tuple[list[_Group], list[_Group]]:
        """Return the groups of jobs that have a seat, and the others, each in the order of seating."""
        started, others = [], []
        for job, pods in self._waiting.items():
            if job in self.never:
                others += [_Group((pod,), part=True) for pod in pods]
            elif self._held[job]:
                started.append(_Group(tuple(pods)))
            else:
                others.append(_Group(tuple(pods), self._sizes[job] - len(pods)))
        return started, sorted(others, key=lambda group: group.order(self._now))

    def reserved(self) -> int:
        """Return how many seats are kept for pods of started jobs that do not exist yet."""
        recent = {seat.job for seat in self._seats if seat.since >= _stamp(self._now - RESERVED)}
        there = {job: self._held[job] + len(self._waiting.get(job, ())) for job in recent - self.never}
        return sum(self._sizes[job] - count for job, count in there.items())


def _age(pod: views.Pod) -> tuple[str, str, str]:
    return pod.created, pod.job, pod.name


def _stamp(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
