"""Who gets, keeps and loses the seats of one shared claim: pure rules over what was read.

The seats are one annotation of the claim, so that a single compare-and-swap decides about all of them. A seat belongs
to a pod, by its uid; it is written before the pod's scheduling gate goes, and taken back only when the pod is known to
be gone or to have ended. `status.reservedFor` is never counted: it has no limit below 256, and keeps ended pods.

The order is by age, and by whole jobs: a job starts when there are seats for all of its pods, because half of a job
would wait for the other half on a device that nobody uses. A younger job may pass an older one that does not fit yet,
until the older one has waited for `PATIENCE`.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from strategies.platform.seats import Seat
from webhook.controllers import views

__all__ = ["PATIENCE", "RESERVED", "Claim", "Settlement", "settle"]

PATIENCE = datetime.timedelta(minutes=5)
"""After which a pod that waits is not passed by younger ones any more."""
RESERVED = datetime.timedelta(minutes=1)
"""For which seats are kept for pods of a started job that are not there yet."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of one claim and its jobs.

    Attributes:
        seats: that are taken, by uid of the pod.
        limit: seats altogether.
        drains: whether only jobs that have a seat here get further ones.
        sizes: pods by name of the job, when all that have not succeeded yet run; a job may be missing.
    """

    seats: Mapping[str, Seat]
    limit: int
    drains: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What came of it.

    Attributes:
        seats: that are taken now, by uid.
        seated: uids of the pods that got a seat.
        waiting: pods that got none, the next one first.
        never: names of the jobs that want more seats than there are, so that all of their pods never run together.
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
        claim: as it is.
        waiting: gated pods without a seat.
        now: with a time zone.
        ended: uids with a seat whose pods are known to be gone or to have ended.
        uninvited: live pods without a gate and without a seat. They use the device, so they get a seat even where
            there is none left; nobody else does until they are gone.
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
    """Pods that are seated together: those of a job that wait, or one pod by itself.

    Attributes:
        pods: oldest first, at least one.
        to_come: further pods of the job that are not there yet.
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
        """Whole jobs before parts of jobs that never fit, unless these have waited for long."""
        return self.part and not self.is_overdue(now), _age(self.pods[0])


class _Jobs:
    """The jobs of one claim: who waits, who has seats, and how many each wants.

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
        """Return the groups of jobs that have a seat, and the others, each in the order of their turns."""
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
        """Return how many seats are kept for pods of started jobs that are not there yet."""
        recent = {seat.job for seat in self._seats if seat.since >= _stamp(self._now - RESERVED)}
        there = {job: self._held[job] + len(self._waiting.get(job, ())) for job in recent - self.never}
        return sum(self._sizes[job] - count for job, count in there.items())


def _age(pod: views.Pod) -> tuple[str, str, str]:
    return pod.created, pod.job, pod.name


def _stamp(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
