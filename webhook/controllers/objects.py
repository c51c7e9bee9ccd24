"""Makes, replaces and removes the claims and templates of one namespace; `desired` decides which should exist."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.kube import transports
from muster.strategies.documents import names
from muster.strategies.platform.profiles import Profile
from muster.webhook.cluster import events, kinds, writes
from muster.webhook.controllers import caches, desired, views

__all__ = ["Objects"]

_logger = logging.getLogger(__name__)
_REPORTED = 4096  # objects of others whose report is remembered
_SOON = 1.0  # seconds until the next try while the name belongs to an object that is being deleted


@dataclass(slots=True, eq=False)
class Objects:
    """Keeps the claims and templates of namespaces as profiles and jobs need them.

    Attributes:
        known: the caches.
        access: sends requests to the API server.
        profiles: returns the profiles in force now.
        recorder: sends Events.
        grace: seconds for which an object stays after nothing names it any more.
        later: called with a namespace and the seconds after which it is checked again.
        clock: returns monotonic seconds.
    """

    known: caches.Caches
    access: writes.Writes
    profiles: Callable[[], Mapping[str, Profile]]
    recorder: events.EventRecorder
    grace: float
    later: Callable[[str, float], None]
    clock: Callable[[], float] = time.monotonic
    # since when nothing names it, by namespace and uid
    _unneeded: dict[str, dict[str, float]] = field(default_factory=dict, init=False)
    _foreign: set[str] = field(default_factory=set, init=False)  # uids of objects of others that were reported

    async def reconcile(self, namespace: str) -> None:
        """Make, replace and remove what is due in a namespace.

        Raises:
            TransportError: the API server refused or did not answer; the caller tries again.
        """
        space = self.known.namespaces.look("", namespace)
        if space is None or space.deleting:
            self._unneeded.pop(namespace, None)
            return
        present = [*self.known.claims.in_namespace(namespace), *self.known.templates.in_namespace(namespace)]
        steps = desired.steps(namespace, self.profiles(), self._uses(space), present)
        try:
            for old, document in steps.replace:
                await self._remove(old, "its profile has changed")
                await self._create(document)
            for document in steps.create:
                await self._create(document)
            for each in self._ripe(namespace, steps.remove):
                await self._remove(each, "nothing names it")
        except writes.TerminatingError:
            _logger.info("namespace is being deleted", extra={"namespace": namespace})

    def _uses(self, space: views.Namespace) -> desired.Uses:
        jobs = [job for job in self.known.jobs.in_namespace(space.name) if job.live]
        pods = [pod for pod in self.known.pods.in_namespace(space.name) if not pod.ended]
        profiles = {name for job in jobs for name in job.profiles} | {pod.profile for pod in pods}
        named = {name for job in jobs for name in (*job.sizes, *job.templates)}
        busy = {name for pod in pods if not pod.gated for name in pod.claims}
        return desired.Uses(
            frozenset(profiles | space.profiles),
            frozenset(named | {name for pod in pods for name in (*pod.claims, *pod.templates)}),
            frozenset(busy),
        )

    async def _create(self, document: dict[str, Any]) -> None:
        kind, metadata = kinds.OBJECTS[document["kind"]], document["metadata"]
        try:
            await self.access.create(kind, document)
        except writes.ConflictError:
            await self._taken(document)
        except transports.RefusedError as error:
            if error.status != 404:  # 404: the namespace was deleted meanwhile
                raise
        else:
            _logger.info("object made", extra=_where(document["kind"], metadata["namespace"], metadata["name"]))

    async def _taken(self, document: Mapping[str, Any]) -> None:
        """Check the object that has the name: Muster's own, which the cache does not hold yet, or a foreign one."""
        namespace, name = document["metadata"]["namespace"], document["metadata"]["name"]
        found = await self.access.get(kinds.OBJECTS[document["kind"]], namespace, name)
        if found is None or views.is_ours(found):
            self.later(namespace, _SOON)
            return
        uid = found["metadata"]["uid"]
        if uid in self._foreign:
            return
        if len(self._foreign) >= _REPORTED:
            self._foreign.clear()
        self._foreign.add(uid)
        problem = (
            f"{document['kind']} {name} was not made by Muster, which wants this name for profile "
            f"{document['metadata']['labels'][names.PROFILE_LABEL]}; Muster does not touch it: rename or delete it"
        )
        _logger.warning("name is taken", extra={**_where(document["kind"], namespace, name), "problem": problem})
        about = events.Regarding(document["apiVersion"], document["kind"], namespace, name, uid)
        self.recorder.say(about, "NameTaken", problem, "Warning")

    async def _remove(self, each: views.Managed, reason: str) -> None:
        if await self.access.delete(kinds.OBJECTS[each.kind], each.namespace, each.name, each.uid, each.version):
            _logger.info("object removed", extra={**_where(each.kind, each.namespace, each.name), "reason": reason})

    def _ripe(self, namespace: str, unneeded: tuple[views.Managed, ...]) -> list[views.Managed]:
        """Return the objects that nothing has named during the grace period; check again when the next one is due."""
        now, before = self.clock(), self._unneeded.get(namespace, {})
        since = {each.uid: before.get(each.uid, now) for each in unneeded}
        if since:
            self._unneeded[namespace] = since
        else:
            self._unneeded.pop(namespace, None)
        left = [self.grace - (now - at) for at in since.values() if now - at < self.grace]
        if left:
            self.later(namespace, min(left) + 0.01)
        return [each for each in unneeded if now - since[each.uid] >= self.grace]


def _where(kind: str, namespace: str, name: str) -> dict[str, str]:
    return {"kind": kind, "namespace": namespace, "object": name}
