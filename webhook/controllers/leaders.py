"""The work of the leader: it follows the cluster, turns changes into keys, and has each key worked on."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.kube import transports
from muster.strategies.platform.profiles import Profile
from muster.webhook.cluster import events, leases, reflector, writes
from muster.webhook.controllers import caches, views
from muster.webhook.controllers.leftover_claims import Leftovers
from muster.webhook.controllers.objects import Objects
from muster.webhook.controllers.queues import Loop
from muster.webhook.controllers.seating import Key, Seating

__all__ = ["ControllerOptions", "Leader", "Profiles"]

_logger = logging.getLogger(__name__)

Profiles = Callable[[], Mapping[str, Profile]]


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """The options of the controllers.

    Attributes:
        terms: the Lease and its times; None acts without one, which is correct for any number of replicas but wasteful.
        grace: seconds for which an object stays after nothing names it any more.
        resync: seconds after which everything is checked again, changed or not.
        deadline: seconds for one request.
        ended_pods: seconds after which an ended pod of a Kubernetes Job is deleted while others use its claim; None
            keeps it.
        look: seconds between checks whether the profiles have changed.
        pace: the times of the watches.
        room: bytes of which what is known of each kind may take a share.
        namespaces: in which the controllers act; () for all.
    """

    terms: leases.Terms | None = field(default_factory=leases.Terms)
    grace: float = 300.0
    resync: float = 30.0
    deadline: float = 5.0
    ended_pods: float | None = 300.0
    look: float = 1.0
    pace: reflector.Pace = field(default_factory=reflector.Pace)
    room: int = caches.ROOM
    namespaces: tuple[str, ...] = ()


class Leader:
    """One term of leadership, in one namespace or in all.

    Attributes:
        known: the caches; `known.following()` must be entered around `run`.

    Args:
        sender: a connection for the watches.
        access: sends all other requests.
        profiles: returns the profiles in force now.
        options: see `Options`.
        rng: the source of jitter.
        namespace: in which it acts; "" for all.
    """

    def __init__(  # noqa: PLR0913 - what a term is begun with
        self,
        sender: transports.Sender,
        access: writes.Writes,
        profiles: Profiles,
        options: ControllerOptions,
        rng: random.Random,
        namespace: str = "",
    ) -> None:
        self._profiles = profiles
        self._options = options
        self._rng = rng
        changed: dict[str, caches.Changed] = {
            "Pod": self._pod_changed,
            "JobSet": self._job_changed,
            "ResourceClaim": self._claim_changed,
            "ResourceClaimTemplate": self._template_changed,
            "Namespace": self._namespace_changed,
        }
        room = options.room // max(1, len(options.namespaces))
        self.known = caches.Caches(sender, changed, options.pace, room, namespace)
        self._recorder = events.EventRecorder(access)
        objects = Objects(self.known, access, profiles, self._recorder, options.grace, self._namespace_later)
        seating = Seating(self.known, access, profiles, self._recorder, self._claim_later, rng)
        self._objects: Loop[str] = Loop("objects", objects.reconcile, rng)
        leftovers = Leftovers(self.known, access, options.ended_pods, self._claim_later)

        async def settle(key: Key) -> None:
            await seating.reconcile(key)
            await leftovers.sweep(key)

        self._seats: Loop[Key] = Loop("seats", settle, rng)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="events")
            group.create_task(self._objects.run(), name="objects")
            group.create_task(self._seats.run(), name="seats")
            group.create_task(self._follow_profiles(), name="profiles")
            group.create_task(self._resync(), name="resync")

    def look_at_all(self) -> None:
        """Queue every key."""
        for claim in self.known.claims.all():
            self._claim_changed(None, claim)
        for template in self.known.templates.all():
            self._template_changed(None, template)
        for pod in self.known.pods.all():
            self._pod_changed(None, pod)
        for job in self.known.jobs.all():
            self._job_changed(None, job)
        for namespace in self.known.namespaces.all():
            self._namespace_changed(None, namespace)

    async def _follow_profiles(self) -> None:
        last = self._profiles()
        while True:
            await asyncio.sleep(self._options.look)
            if (now := self._profiles()) != last:
                last = now
                _logger.info("profiles have changed", extra={"profiles": sorted(now)})
                self.look_at_all()

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._options.resync * self._rng.uniform(0.8, 1.2))
            self.look_at_all()

    def _namespace_later(self, namespace: str, seconds: float) -> None:
        self._objects.queue.add_after(namespace, seconds)

    def _claim_later(self, key: Key, seconds: float) -> None:
        self._seats.queue.add_after(key, seconds)

    def _pod_changed(self, before: views.Pod | None, after: views.Pod | None) -> None:
        for pod in (before, after):
            if pod is not None:
                self._objects.queue.add(pod.namespace)
                for claim in pod.claims:
                    self._seats.queue.add(Key(pod.namespace, claim))

    def _job_changed(self, before: views.JobSet | None, after: views.JobSet | None) -> None:
        for job in (before, after):
            if job is not None:
                self._objects.queue.add(job.namespace)
                for claim in job.sizes:
                    self._seats.queue.add(Key(job.namespace, claim))

    def _claim_changed(self, before: views.Managed | None, after: views.Managed | None) -> None:
        claim = after or before
        if claim is None or (before and after and dataclasses.replace(before, version=after.version) == after):
            return
        self._objects.queue.add(claim.namespace)
        self._seats.queue.add(Key(claim.namespace, claim.name))
        for pod in self.known.pods.naming(claim.namespace, claim.name):
            if len(pod.claims) > 1:  # a pod may wait for its next seat
                self._pod_changed(None, pod)

    def _template_changed(self, before: views.Managed | None, after: views.Managed | None) -> None:
        for template in (before, after):
            if template is not None:
                self._objects.queue.add(template.namespace)

    def _namespace_changed(self, before: views.Namespace | None, after: views.Namespace | None) -> None:
        for namespace in (before, after):
            if namespace is not None:
                self._objects.queue.add(namespace.name)
