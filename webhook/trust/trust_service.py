"""Wiring of trust: a replica that follows the authorities, and leads when it is elected."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import timedelta

from muster.certs import errors, material_sources
from muster.kube import transports
from muster.webhook import configs
from muster.webhook.cluster import leases, writes
from muster.webhook.trust import bundles, keepers, secrets, trust_leader

__all__ = ["Trust"]

_DEADLINE = 5.0  # seconds for one request to the API server

_logger = logging.getLogger(__name__)


class Trust:
    """One replica's part in shared certificates.

    Args:
        sender: a connection to the API server; not closed here.
        settings: `tls.secret` of the configuration.
        names: the names that the leaf covers.
        counted: called with verb, plural and outcome of each write.

    Attributes:
        source: supplies the certificate to serve.
    """

    def __init__(
        self,
        sender: transports.Sender,
        settings: configs.SecretSettings,
        names: Sequence[str],
        counted: Callable[[str, str, str], None] = lambda *_: None,
    ) -> None:
        access = writes.Writes(sender, _DEADLINE, counted)
        validity = timedelta(seconds=settings.authority_validity)
        self._settings = settings
        self._rng = random.Random()  # noqa: S311 - jitter, no secret
        self.source = material_sources.SharedSource(
            names,
            validity=timedelta(seconds=settings.leaf_validity),
            margin=timedelta(seconds=2 * settings.interval),
        )
        configurations = bundles.Configurations(access, settings.webhooks)
        self._keeper = keepers.Keeper(
            secrets.SharedSecret(access, settings.namespace, settings.name),
            configurations,
            self.source,
            keepers.TrustRules(settings.settle, validity),
        )
        self._leader = trust_leader.TrustLeader(self._keeper, configurations, settings.interval)
        lease = settings.lease
        terms = leases.Terms(lease.name, lease.namespace, lease.duration, lease.deadline, lease.retry)
        self._election = leases.Election(access, terms, leases.identity())
        self._lease = lease.name
        self._problem = ""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Get the authorities, however long the API server takes, and follow them from then on."""
        while not await self._look():
            await self._pause()
        self._tasks = [
            asyncio.create_task(self._election.hold(self._leader.run), name="certificates' leader"),
            asyncio.create_task(self._follow(), name="certificates' keeper"),
        ]

    async def stop(self) -> None:
        """Stop following, and release the Lease."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def problem(self) -> str:
        """Return why the served certificate may not be trusted, "" when no reason is known."""
        return self._keeper.problem()

    def live_bundles(self) -> tuple[bytes, ...]:
        """Return what the API server trusts, as PEM: the distinct bundles of the webhook configurations."""
        return self._keeper.live_bundles()

    def leads(self) -> dict[str, float]:
        """Return 1 or 0 by the name of the Lease, as a gauge."""
        return {self._lease: float(self._election.leading)}

    async def _follow(self) -> None:
        while True:
            await self._pause()
            await self._look()

    async def _look(self) -> bool:
        """Look once; a failure is logged once until it changes."""
        try:
            await self._keeper.look()
        except (transports.TransportError, errors.CertificateError) as error:
            if str(error) != self._problem:
                _logger.warning("shared authorities not read, going on from memory", extra={"problem": str(error)})
            self._problem = str(error)
            return bool(self._keeper.ring.members)
        self._problem = ""
        return True

    async def _pause(self) -> None:
        await asyncio.sleep(self._settings.interval * self._rng.uniform(0.8, 1.2))
