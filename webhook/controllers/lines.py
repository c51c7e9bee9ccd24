"""The pods that wait for one claim and the pods that have its seats, as the caches show them: the input of `seats`."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.strategies.platform.profiles import Profile
from muster.strategies.platform.seats import Seat, SeatsError, parse_seats
from muster.webhook.controllers import caches, desired, seat_rules, views

__all__ = ["Holders", "Line", "look", "reason"]

_UNKNOWN = datetime.timedelta(seconds=3)  # how long a pod may be known before its JobSet is
_SHOWN = 8  # holders in a message


@dataclass(frozen=True, slots=True)
class Line:
    """One claim and its pods.

    Attributes:
        claim: its seats and rules.
        waiting: live gated pods without a seat that can take one at this claim now.
        missing: uids that have a seat but no known live pod, each with the name of the pod.
        ended: uids with a seat whose pods have ended.
        uninvited: live pods without a gate and without a seat.
        ready: gated pods that have all the seats that they need.
        early: whether a pod was left out because its JobSet is not known yet.
        unreadable: what is wrong with the claim's annotation, "" for nothing. Its seats then count as free, and live
            pods without a gate are listed in `uninvited`.
    """

    claim: seat_rules.Claim
    waiting: tuple[views.Pod, ...]
    missing: Mapping[str, str]
    ended: frozenset[str]
    uninvited: tuple[views.Pod, ...]
    ready: tuple[views.Pod, ...]
    early: bool = False
    unreadable: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether no seat has to be given or taken."""
        return not (self.waiting or self.missing or self.ended or self.uninvited or self.unreadable)


def look(
    known: caches.Caches,
    claim: views.Managed,
    profile: Profile | None,
    now: datetime.datetime,
) -> Line:
    """Return the line at a claim.

    Args:
        known: pods, JobSets and the other claims of the namespace.
        claim: the claim, from the caches or just read.
        profile: the profile that it was made from; None when the profile does not exist any more, and no further pod is
            seated.
        now: the time, with a time zone.
    """
    held, unreadable = _held(claim)
    held_on = Holders(known)
    pods = known.pods.naming(claim.namespace, claim.name)
    gated = [pod for pod in pods if _is_held_back(pod)]
    turn = [pod for pod in gated if pod.uid not in held and held_on.has_seats(pod, _before(pod, claim))]
    early = {pod.uid for pod in turn if _is_early(known, pod, now)}
    others = {pod.uid: tuple(name for name in pod.claims if name != claim.name) for pod in gated}
    return Line(
        seat_rules.Claim(
            held, profile.max_sessions if profile else 0, _drains(claim, profile), _sizes(known, claim, pods)
        ),
        tuple(pod for pod in turn if pod.uid not in early),
        {uid: seat.pod for uid, seat in held.items() if not _is_known(known, claim.namespace, seat.pod, uid)},
        frozenset(pod.uid for pod in pods if pod.ended and pod.uid in held),
        tuple(pod for pod in pods if not pod.gated and not pod.ended and pod.uid not in held),
        tuple(pod for pod in gated if pod.uid in held and held_on.has_seats(pod, others[pod.uid])),
        bool(early),
        unreadable,
    )


def reason(claim: views.Managed, after: seat_rules.Claim, pod: views.Pod, *, never: bool) -> str:
    """Return why a pod has no seat, and which jobs and pods have one.

    Args:
        claim: the claim that the pod names.
        after: the seats of the claim now.
        pod: the pod that waits.
        never: whether its job needs more seats than the claim has.
    """
    held = f"{len(after.seats)} of {after.limit} seats of ResourceClaim {claim.name} are taken by {_holders(after)}"
    if after.drains:
        why = "the claim belongs to an older version of its profile or is being deleted, and takes no further jobs"
        return f"waits for a seat: {why}; {held}"
    if never:
        size = max(after.sizes.get(pod.job, 0), after.limit + 1)
        why = f"job {pod.job} has {size} or more pods on a claim of {after.limit} seats, so they never all run together"
        return f"{why}; raise maxSessions of profile {claim.profile}, or use fewer pods; {held}"
    return f"waits for a seat: {held}"


class Holders:
    """Who has seats on which claims; each claim's annotation is read once, whatever the number of pods.

    Args:
        known: the claims.
    """

    def __init__(self, known: caches.Caches) -> None:
        self._known = known
        self._uids: dict[tuple[str, str], frozenset[str] | None] = {}

    def has_seats(self, pod: views.Pod, claims: Iterable[str]) -> bool:
        """Whether a pod has a seat on each of these claims that has seats.

        Pods take their seats in the order of the claims' names, so that no two pods can wait for each other.
        """
        holders = (self._on(pod.namespace, name) for name in claims)
        return all(uids is None or pod.uid in uids for uids in holders)

    def waits(self, pod: views.Pod) -> bool:
        """Whether a pod waits for a seat; one that has all of its seats only waits until its gate is removed."""
        if not _is_held_back(pod):
            return False
        has_claim = any(self._on(pod.namespace, name) is not None for name in pod.claims)
        return not (has_claim and self.has_seats(pod, pod.claims))

    def _on(self, namespace: str, name: str) -> frozenset[str] | None:
        if (namespace, name) not in self._uids:
            claim = self._known.claims.look(namespace, name)
            self._uids[namespace, name] = None if claim is None else frozenset(_held(claim)[0])
        return self._uids[namespace, name]


def _is_held_back(pod: views.Pod) -> bool:
    return pod.gated and not pod.ended and not pod.deleting


def _held(claim: views.Managed) -> tuple[dict[str, Seat], str]:
    try:
        return parse_seats(claim.seats), ""
    except SeatsError as error:
        return {}, str(error)


def _holders(claim: seat_rules.Claim) -> str:
    """Return the names of those that have seats: `job sampler-a (2), pod x`."""
    holders = Counter(f"job {seat.job}" if seat.job else f"pod {seat.pod}" for seat in claim.seats.values())
    shown = [f"{name} ({count})" if count > 1 else name for name, count in sorted(holders.items())[:_SHOWN]]
    more = len(holders) - len(shown)
    return ", ".join(shown + [f"{more} more"] * bool(more)) or "nobody"


def _before(pod: views.Pod, claim: views.Managed) -> tuple[str, ...]:
    """Return the claims on which a pod takes a seat before it takes one on this claim."""
    return pod.claims[: pod.claims.index(claim.name)]


def _is_known(known: caches.Caches, namespace: str, name: str, uid: str) -> bool:
    pod = known.pods.look(namespace, name)
    return pod is not None and pod.uid == uid


def _is_early(known: caches.Caches, pod: views.Pod, now: datetime.datetime) -> bool:
    """Whether a pod is known before its JobSet, which defines the number of pods; after a while it is seated alone."""
    if not pod.job or known.jobs.look(pod.namespace, pod.job) is not None:
        return False
    return now - datetime.datetime.fromisoformat(pod.created) < _UNKNOWN


def _drains(claim: views.Managed, profile: Profile | None) -> bool:
    return claim.deleting or profile is None or not profile.is_shared or claim.hash != desired.spec_hash(profile)


def _sizes(known: caches.Caches, claim: views.Managed, pods: Iterable[views.Pod]) -> dict[str, int]:
    """Return how many pods each job still needs on a claim; pods that succeeded are not made again."""
    sizes = {
        job.name: job.sizes.get(claim.name, 0) for job in known.jobs.naming(claim.namespace, claim.name) if job.live
    }
    for pod in pods:
        if pod.phase == "Succeeded" and sizes.get(pod.job):
            sizes[pod.job] -= 1
    return sizes
