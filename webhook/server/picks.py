"""Picks: which shared claims this process has just given to JobSets, whose pods cannot have taken a seat yet.

Seats are taken when pods exist, so of fifty jobs in one `kubectl apply` each would see the same claim empty and choose
it, and wait there while other devices idle; a job cannot move to another claim later. Counting what was chosen a moment
ago spreads them. It is no more than a better guess: other replicas pick too, and only the controller gives seats.
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
"""Seconds in which a JobSet's pods are made and seated, with time to spare."""
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
        """Let the mutation of a JobSet see the claims as they will be when earlier picks are seated."""
        while self._recent and self._recent[0].until <= self._clock():
            self._recent.popleft()
        if request.kind != "JobSet" or request.phase != "mutate" or request.operation != "CREATE":
            return
        for claim in {pick.claim: None for pick in self._recent if pick.claim.namespace == request.namespace}:
            try:
                document = overlay.get(claim) or {}
            except readers.NotCached:  # it is being made
                document = {}
            overlay.put(claim, _seated(document, [pick for pick in self._recent if pick.claim == claim]))

    def note(self, decision: Decision) -> None:
        """Remember what a decision gave to a JobSet; a rehearsal gives nothing."""
        request = decision.request
        if request.dry_run or request.phase != "mutate" or decision.verdict != "patched":
            return
        for claim, pods in _given(decision):
            ref, job = Ref("ResourceClaim", request.namespace, claim), request.name
            self._recent.append(_Pick(self._clock() + REMEMBERED, ref, job, pods))


def _given(decision: Decision) -> Iterator[tuple[str, int]]:
    """Yield the shared claims that were added, and by how many pods each is going to be used."""
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
    """Return the claim with a seat for each pod of a pick, unless pods of its job are seated already."""
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    seats = seat_entries(document)
    seated = {seat.get("job") for seat in seats.values() if isinstance(seat, dict)}
    for number, pick in enumerate(picks):
        for pod in range(pick.pods if not pick.job or pick.job not in seated else 0):
            seats[f"pick-{number}-{pod}"] = {"pod": "a pod to come", "job": pick.job or "without a name yet"}
    annotations = {**annotations, names.SEATS_ANNOTATION: json.dumps(seats)}
    return {**document, "metadata": {**metadata, "annotations": annotations}}
