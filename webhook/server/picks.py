"""Picks: the shared claims that this process has just chosen for JobSets whose pods have no seats yet.

Pods get seats when they exist. So all of fifty jobs in one `kubectl apply` would see the same claim as free, choose it
and wait for it while other devices are idle, and a job cannot move to another claim later. Counting the picks of the
last seconds spreads the jobs. It is only a better guess: other replicas pick too, and only the controllers give seats.

The seats of a job on one claim are one pick with a count, however many they are. Each namespace has a limited number of
picks, so that nobody's jobs push out those of others.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.strategies.documents import names
from muster.strategies.platform.seats import COUNT, seat_entries
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.reviews import Request
from muster.webhook.cluster import readers
from muster.webhook.cluster.overlay import Overlay
from muster.webhook.cluster.readers import Ref

__all__ = ["MOST_NAMESPACES", "MOST_PICKS", "REMEMBERED", "Picks", "given"]

REMEMBERED = 10.0
"""Seconds in which the pods of a JobSet are created and get their seats, with a margin."""
MOST_PICKS = 256
"""Picks of one namespace; the oldest ones are forgotten first."""
MOST_NAMESPACES = 256
"""Namespaces with picks; the one whose last pick is oldest is forgotten first."""


@dataclass(frozen=True, slots=True)
class _Pick:
    until: float
    claim: str
    job: str
    pods: int


class Picks:
    """The picks of the last seconds.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: OrderedDict[str, deque[_Pick]] = OrderedDict()

    def show(self, request: Request, overlay: Overlay) -> None:
        """Show the mutation of a JobSet the claims as they will be when the pods of earlier picks have their seats."""
        if request.kind != "JobSet" or request.phase != "mutate" or request.operation != "CREATE":
            return
        for claim, picks in self._by_claim(request.namespace).items():
            ref = Ref("ResourceClaim", request.namespace, claim)
            try:
                document = overlay.get(ref) or {}
            except readers.NotCached:  # it is being created
                document = {}
            overlay.put(ref, _seated(document, picks))

    def note(self, request: Request, given: Mapping[str, int]) -> None:
        """Remember the claims that a JobSet was given, each with the number of its pods."""
        for claim, pods in given.items():
            self._remember(request.namespace, _Pick(self._clock() + REMEMBERED, claim, request.name, pods))

    def _remember(self, namespace: str, pick: _Pick) -> None:
        self._recent.setdefault(namespace, deque(maxlen=MOST_PICKS)).append(pick)
        self._recent.move_to_end(namespace)
        if len(self._recent) > MOST_NAMESPACES:
            self._recent.popitem(last=False)

    def _by_claim(self, namespace: str) -> dict[str, list[_Pick]]:
        found: dict[str, list[_Pick]] = {}
        picks = self._recent.get(namespace, deque())
        while picks and picks[0].until <= self._clock():
            picks.popleft()
        for pick in picks:
            found.setdefault(pick.claim, []).append(pick)
        if not found:
            self._recent.pop(namespace, None)
        return found


def given(decision: Decision) -> dict[str, int]:
    """Return the shared claims that a decision added to a JobSet, each with the number of pods that will use it.

    A dry run adds none. A claim with fewer seats than the job has pods is left out: validation refuses such a job
    (`claims/never-seated`).
    """
    request, supply = decision.request, decision.governor.supply
    counts: dict[str, int] = {}
    if request.dry_run or request.phase != "mutate" or decision.verdict != "patched" or not supply.profiles:
        return counts
    for change in decision.changes:
        if "/resourceClaims" in change.path and change.op == "add":
            for entry in change.after if isinstance(change.after, list) else [change.after]:
                claim = entry.get("resourceClaimName")
                profile = supply.maker(claim) if claim is not None else None
                if profile is not None:
                    index = int(change.path.split("/")[3])
                    pods = _pods(decision.document["spec"]["replicatedJobs"][index])
                    if pods <= profile.max_sessions:
                        counts[claim] = counts.get(claim, 0) + pods
    return counts


def _pods(job: Mapping[str, Any]) -> int:
    return int((job.get("replicas") or 1) * (job["template"]["spec"].get("parallelism") or 1))


def _seated(document: Mapping[str, Any], picks: list[_Pick]) -> dict[str, Any]:
    """Return the claim with the seats of each pick, unless pods of its job have seats already."""
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    seats = seat_entries(document)
    seated = {str(seat.get("job")) for seat in seats.values() if isinstance(seat, dict)}
    for number, pick in enumerate(picks):
        if not pick.job or pick.job not in seated:
            seats[f"pick-{number}"] = _entry(pick)
    annotations = {**annotations, names.SEATS_ANNOTATION: json.dumps(seats)}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def _entry(pick: _Pick) -> dict[str, Any]:
    pod = "a pod to come" if pick.pods == 1 else f"{pick.pods} pods to come"
    return {"pod": pod, "job": pick.job or "without a name yet", COUNT: pick.pods}
