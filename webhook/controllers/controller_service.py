"""Wiring of the controllers: a replica leads when it is elected, follows the cluster, and turns changes into work.

A replica that does not lead holds no caches and no watches.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from muster.kube import transports
from muster.strategies.platform.profiles import Profile
from muster.strategies.platform.seats import SeatsError, parse_seats
from muster.webhook import configs
from muster.webhook.cluster import leases, writes
from muster.webhook.controllers import caches, lines, views
from muster.webhook.controllers.leaders import ControllerOptions, Leader, Profiles

__all__ = ["FIGURES", "ControllerOptions", "Controllers", "options_of"]

_logger = logging.getLogger(__name__)


def options_of(settings: configs.ControllerSettings, cluster: configs.ClusterSettings) -> ControllerOptions:
    """Return the options that two sections of a configuration file ask for."""
    lease = settings.lease
    return ControllerOptions(
        leases.Terms(lease.name, lease.namespace, lease.duration, lease.deadline, lease.retry),
        settings.grace,
        settings.resync,
        settings.deadline,
        settings.ended_pods,
        room=cluster.cache_limit,
        namespaces=cluster.namespaces,
    )


FIGURES: Final = {
    "taken": "Seats of shared claims that are taken",
    "limit": "Seats of shared claims in total",
    "waiting": "Pods that wait for a seat",
}
"""The figures of the leader about each profile, by name."""


class Controllers:
    """One replica of the controllers.

    Args:
        sender: a connection to the API server; not closed here.
        profiles: returns the profiles in force now.
        options: see `Options`.
        counted: called with verb, plural and outcome of each write.
    """

    def __init__(
        self,
        sender: transports.Sender,
        profiles: Profiles,
        options: ControllerOptions | None = None,
        counted: Callable[[str, str, str], None] = lambda *_: None,
    ) -> None:
        self._sender = sender
        self._profiles = profiles
        self._options = options or ControllerOptions()
        self._rng = random.Random()  # noqa: S311 - jitter, no secret
        self._access = writes.Writes(sender, self._options.deadline, counted)
        terms = self._options.terms
        self._election = leases.Election(self._access, terms, leases.identity()) if terms else None
        self._known: list[caches.Caches] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; needs a running event loop. Returns at once."""
        self._task = asyncio.create_task(self._run(), name="controllers")

    async def stop(self) -> None:
        """Stop the work and release the Lease. Stopping twice has no further effect."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def leading(self) -> bool:
        """Whether this replica writes."""
        return bool(self._known)

    def leads(self) -> dict[str, float]:
        """Return 1 or 0 by the name of the Lease, as a gauge."""
        terms = self._options.terms
        return {terms.name if terms else "none": float(self.leading)}

    def figure(self, name: str) -> dict[str, float]:
        """Return one of `FIGURES` by profile; empty unless this replica leads."""
        profiles = self._profiles()
        if not self._known:
            return {}
        counts: Counter[str] = Counter(dict.fromkeys((each.name for each in profiles.values() if each.is_shared), 0))
        for known in self._known:
            if name == "waiting":
                holders = lines.Holders(known)
                counts.update(pod.profile for pod in known.pods.all() if holders.waits(pod))
                continue
            for claim in known.claims.all():
                counts[claim.profile] += _count(claim, profiles.get(claim.profile), taken=name == "taken")
        return {profile: float(count) for profile, count in counts.items() if profile in profiles}

    def held(self, name: str) -> dict[str, float]:
        """Return a figure about each of the leader's caches, by kind; see `Caches.figure`."""
        held: Counter[str] = Counter()
        for known in self._known:
            held.update(known.figure(name))
        return dict(held)

    async def _run(self) -> None:
        while True:
            try:
                await (self._election.hold(self._lead) if self._election else self._lead())
            except Exception:
                _logger.exception("the controllers failed and start over")
            await asyncio.sleep(self._rng.uniform(0.5, 1.5))

    async def _lead(self) -> None:
        """Do the work of the leader until cancelled, in each namespace by itself."""
        async with AsyncExitStack() as stack:
            leaders = [
                Leader(self._sender, self._access, self._profiles, self._options, self._rng, each)
                for each in self._options.namespaces or ("",)
            ]
            for leader in leaders:
                await stack.enter_async_context(leader.known.following())
            self._known = [leader.known for leader in leaders]
            try:
                async with asyncio.TaskGroup() as group:
                    for leader in leaders:
                        group.create_task(leader.run())
            finally:
                self._known = []


def _count(claim: views.Managed, profile: Profile | None, *, taken: bool) -> int:
    if not taken:
        return profile.max_sessions if profile else 0
    try:
        return len(parse_seats(claim.seats))
    except SeatsError:
        return 0
