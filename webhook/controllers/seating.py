"""Seats pods at one claim: reads which pods wait, swaps the claim's annotation, and only then removes the gates.

A seat is taken by one conditional write, based on what the API server returned just before, and given up only when the
API server itself reports that the pod is deleted or has ended. So two controllers that act at the same time cannot give
out one seat too many, and the next controller repairs what one that dies in between leaves behind: a seat without a pod
is taken back, and the gate of a pod with a seat is removed.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.kube import transports
from muster.strategies.documents import names
from muster.strategies.platform.profiles import Profile
from muster.strategies.platform.seats import format_seats
from muster.webhook.cluster import events, kinds, writes
from muster.webhook.controllers import caches, lines, seat_rules, views

__all__ = ["Key", "Seating"]

_logger = logging.getLogger(__name__)
_TRIES = 5  # swaps against others' writes; after these the key is queued again
_SEATS = "/metadata/annotations/" + names.SEATS_ANNOTATION.replace("/", "~1")
_OPENED = 5.0  # seconds until the cache knows that a gate was removed


class Key(NamedTuple):
    """One claim."""

    namespace: str
    claim: str


@dataclass(slots=True, eq=False)
class Seating:
    """Gives and takes seats.

    Attributes:
        known: the caches.
        access: sends requests to the API server.
        profiles: returns the profiles in force now.
        recorder: sends Events.
        later: called with a key and the seconds after which it is checked again.
        rng: the source of jitter.
        clock: returns monotonic seconds.
    """

    known: caches.Caches
    access: writes.Writes
    profiles: Callable[[], Mapping[str, Profile]]
    recorder: events.EventRecorder
    later: Callable[[Key, float], None]
    rng: random.Random
    clock: Callable[[], float] = time.monotonic
    _opened: dict[str, float] = field(default_factory=dict, init=False)  # when its gate was removed, by uid of the pod

    async def reconcile(self, key: Key) -> None:
        """Settle one claim, and remove the gates of pods that have a seat.

        Raises:
            TransportError: the API server refused or did not answer; the caller tries again.
        """
        claim = self.known.claims.look(*key)
        if claim is None:
            return
        line = self._look(claim)
        if line.early:
            self.later(key, 1.0)
        if line.is_settled and not line.ready:
            return
        for pod in await self._settled(key):
            await self._open(pod)

    def _look(self, claim: views.Managed) -> lines.Line:
        now = datetime.datetime.now(datetime.UTC)
        return lines.look(self.known, claim, self.profiles().get(claim.profile), now)

    async def _settled(self, key: Key) -> tuple[views.Pod, ...]:
        """Swap until it succeeds, and return the gated pods that then have their seats."""
        for attempt in range(_TRIES):
            document = await self.access.get(kinds.CLAIM, *key)
            if document is None or not views.is_ours(document):
                return ()
            claim = views.Managed.from_document(document)
            line = self._look(claim)
            if line.unreadable:
                where = {"namespace": key.namespace, "object": key.claim, "problem": line.unreadable}
                _logger.error("seats are unreadable, and are made again from the live pods", extra=where)
            settlement = await self._settlement(key.namespace, line)
            swapped = await self._swap(claim, settlement) if _differs(settlement, claim) else claim
            if swapped is not None:
                self._tell(swapped, line, settlement)
                return self._look(swapped).ready
            await asyncio.sleep(self.rng.uniform(0, 0.02 * 2**attempt))
        raise transports.UnreachableError(f"ResourceClaim {key.namespace}/{key.claim} keeps being changed by others")

    async def _settlement(self, namespace: str, line: lines.Line) -> seat_rules.Settlement:
        gone = {uid for uid, name in line.missing.items() if not await self._is_live(namespace, name, uid)}
        uninvited = [pod for pod in line.uninvited if await self._is_live(namespace, pod.name, pod.uid)]
        now = datetime.datetime.now(datetime.UTC)
        return seat_rules.settle(line.claim, line.waiting, now, ended=line.ended | gone, uninvited=uninvited)

    async def _is_live(self, namespace: str, name: str, uid: str) -> bool:
        """Whether the API server has a pod of this uid that has not ended."""
        document = await self.access.get(kinds.POD, namespace, name)
        return (
            document is not None and document["metadata"]["uid"] == uid and not views.Pod.from_document(document).ended
        )

    async def _swap(self, claim: views.Managed, settlement: seat_rules.Settlement) -> views.Managed | None:
        """Write the seats if they are still those that were read; return None when they are not.

        The seats are compared and not the resourceVersion, because the status of a claim changes while pods come and
        go, up to 170 times a second beside an ended pod (kubernetes#141274). Equal seats are as safe as an unchanged
        object, since a pod that has ended or is deleted stays so.
        """
        text = format_seats(settlement.seats)
        body: Any = [
            {"op": "test", "path": "/metadata/uid", "value": claim.uid},
            {"op": "test", "path": _SEATS, "value": claim.seats},
            {"op": "replace", "path": _SEATS, "value": text},
        ]
        if not claim.seats:  # there is no annotation to compare with
            body = {"metadata": {"resourceVersion": claim.version, "annotations": {names.SEATS_ANNOTATION: text}}}
        try:
            return views.Managed.from_document(await self.access.patch(kinds.CLAIM, claim.namespace, claim.name, body))
        except transports.RefusedError as error:
            if error.status not in {409, 422}:
                raise
            return None

    async def _open(self, pod: views.Pod) -> None:
        """Remove the gate of a pod that has its seats; another controller may have removed it before."""
        now = self.clock()
        self._opened = {uid: at for uid, at in self._opened.items() if now - at < _OPENED}
        if pod.uid in self._opened:
            return
        place = pod.gates.index(names.SEAT_GATE)
        body = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "test", "path": f"/spec/schedulingGates/{place}/name", "value": names.SEAT_GATE},
            {"op": "remove", "path": f"/spec/schedulingGates/{place}"},
        ]
        try:
            await self.access.patch(kinds.POD, pod.namespace, pod.name, body)
        except transports.RefusedError as error:
            if error.status not in {404, 422}:  # the pod is deleted or another one, or its gate is removed already
                raise
        self._opened[pod.uid] = now

    def _tell(self, claim: views.Managed, line: lines.Line, settlement: seat_rules.Settlement) -> None:
        """Send Events to pods that got a seat, and to waiting pods which jobs and pods have the seats."""
        after = seat_rules.Claim(settlement.seats, line.claim.limit, line.claim.drains, line.claim.sizes)
        taken = f"{len(after.seats)} of {after.limit}"
        for pod in line.waiting:
            if pod.uid in settlement.seats:
                text = f"took a seat on ResourceClaim {claim.name} ({taken} are taken)"
                self.recorder.say(_about(pod), "Seated", text)
        for pod in settlement.waiting:
            never = pod.job in settlement.never
            text = lines.reason(claim, after, pod, never=never)
            self.recorder.say(_about(pod), "NeverWhole" if never else "WaitingForSeat", text, "Warning")
        freed = len(line.claim.seats.keys() - settlement.seats.keys())
        if settlement.seated or freed:
            where = {"namespace": claim.namespace, "object": claim.name, "taken": taken}
            _logger.info("seats changed", extra={**where, "seated": len(settlement.seated), "freed": freed})


def _differs(settlement: seat_rules.Settlement, claim: views.Managed) -> bool:
    return format_seats(settlement.seats) != claim.seats


def _about(pod: views.Pod) -> events.Regarding:
    return events.Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
