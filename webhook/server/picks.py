"""Picks: the shared claims that this process has just chosen for JobSets whose pods have no seats yet.

Pods get seats when they exist. So all of fifty jobs in one `kubectl apply` would see the same claim as free, choose it
and wait for it while other devices are idle, and a job cannot move to another claim later. Counting the picks of the
last seconds spreads the jobs. It is only a better guess: other replicas pick too, and only the controllers give seats.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strategies.documents import names
from strategies.platform.seats import seat_entries
from webhook.admission.decisions import Decision
from webhook.admission.reviews import Request
from webhook.cluster import readers
from webhook.cluster.overlay import Overlay
from webhook.cluster.readers import Ref

__all__ = ["REMEMBERED", "Picks"]

REMEMBERED = 10.0
"""Seconds in which the pods of a JobSet are created and get their seats, with a margin."""
_MOST = 1000


@dataclass(frozen=True, slots=True)
class _Pick:
    until: float
    claim: Ref
    job: str
    pods: int


class Picks:
    """The picks of the last seconds.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: deque[_Pick] = deque(maxlen=_MOST)

    def show(self, request: Request, overlay: Overlay) -> None:
        """Show the mutation of a JobSet the claims as they will be when the pods of earlier picks have their seats."""
        while self._recent and self._recent[0].until <= self._clock():
            self._recent.popleft()
        if request.kind != "JobSet" or request.phase != "mutate" or request.operation != "CREATE":
            return
        for claim in {pick.claim: None for pick in self._recent if pick.claim.namespace == request.namespace}:
            try:
                document = overlay.get(claim) or {}
            except readers.NotCached:  # it is being created
                document = {}
            overlay.put(claim, _seated(document, [pick for pick in self._recent if pick.claim == claim]))

    def note(self, decision: Decision) -> None:
        """Remember the claims that a decision added to a JobSet; a dry run adds none."""
        request = decision.request
        if request.dry_run or request.phase != "mutate" or decision.verdict != "patched":
            return
        for claim, pods in _given(decision):
            ref, job = Ref("ResourceClaim", request.namespace, claim), request.name
            self._recent.append(_Pick(self._clock() + REMEMBERED, ref, job, pods))


def _given(decision: Decision) -> Iterator[tuple[str, int]]:
    """Yield the shared claims that were added, each with the number of pods that will use it."""
    supply = decision.governor.supply
    for change in decision.changes if supply.profiles else ():
        if "/resourceClaims" in change.path and change.op == "add":
            for entry in change.after if isinstance(change.after, list) else [change.after]:
                claim = entry.get("resourceClaimName")
                if claim is not None and supply.maker(claim) is not None:
                    index = int(change.path.split("/")[3])
                    yield claim, _pods(decision.document["spec"]["replicatedJobs"][index])


def _pods(job: Mapping[str, Any]) -> int:
    return int((job.get("replicas") or 1) * (job["template"]["spec"].get("parallelism") or 1))


def _seated(document: Mapping[str, Any], picks: list[_Pick]) -> dict[str, Any]:
    """Return the claim with a seat for each pod of a pick, unless pods of its job have seats already."""
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    seats = seat_entries(document)
    seated = {seat.get("job") for seat in seats.values() if isinstance(seat, dict)}
    for number, pick in enumerate(picks):
        for pod in range(pick.pods if not pick.job or pick.job not in seated else 0):
            seats[f"pick-{number}-{pod}"] = {"pod": "a pod to come", "job": pick.job or "without a name yet"}
    annotations = {**annotations, names.SEATS_ANNOTATION: json.dumps(seats)}
    return {**document, "metadata": {**metadata, "annotations": annotations}}
