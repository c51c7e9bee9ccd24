"""What the leader does for all replicas: make a new authority in time, and keep the bundles correct.

A bundle holds exactly the shared authorities, with one exception: another valid certificate that a leader finds there
stays for a while, because older pods may still serve leaves that it signed, for example when an installation changes
from certificates in files to this mode.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass, field

from cryptography import x509

from muster.certs import chains, errors, pems
from muster.kube import transports
from muster.webhook.trust import bundles, keepers

__all__ = ["GUESTS", "TrustLeader"]

GUESTS = 3600.0
"""Seconds for which a certificate that is not one of the shared authorities stays in a bundle."""

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class TrustLeader:
    """The work of the leader.

    Attributes:
        keeper: the keeper of this replica.
        configurations: the webhook configurations whose bundles are written.
        interval: seconds between two looks.
        clocks: the same clocks as the keeper's.
    """

    keeper: keepers.Keeper
    configurations: bundles.Configurations
    interval: float
    clocks: keepers.Clocks = field(default_factory=keepers.Clocks)
    _guests: dict[str, float] = field(default_factory=dict, init=False)
    _rng: random.Random = field(default_factory=random.Random, init=False)
    _problem: str = field(default="", init=False)

    async def run(self) -> None:
        """Work until cancelled; a failure is logged once until it changes, and the work is tried again."""
        while True:
            try:
                await self.look()
            except (transports.TransportError, errors.CertificateError) as error:
                self._say(str(error))
            else:
                self._problem = ""
            await asyncio.sleep(self.interval * self._rng.uniform(0.8, 1.2))

    async def look(self) -> None:
        """Look once: rotate when it is time, and write each bundle that is not correct.

        Raises:
            CertificateError, TransportError: nothing is left half-done; look again.
        """
        if self.keeper.ring.members and self.keeper.ring.due(self.clocks.wall()):
            await self.keeper.rotate()
            _logger.info("a new authority, to be trusted first and used then", extra={"authorities": self._named()})
        for configuration in await self.configurations.read():
            wanted = pems.certificate_pem(*self._wanted(configuration).values())
            if self.keeper.ring.members and any(bundle != wanted for bundle in configuration.bundles):
                await self.configurations.write(configuration, wanted)
                _logger.info("caBundle written", extra={"object": str(configuration), "authorities": self._named()})

    def _wanted(self, configuration: bundles.Configuration) -> dict[str, x509.Certificate]:
        """Return the certificates that a configuration should trust: shared ones, newest first, then others."""
        ours = {chains.fingerprint(each): each for each in self.keeper.ring.certificates}
        now, wall = self.clocks.steady(), self.clocks.wall()
        for fingerprint, certificate in bundles.trusted([configuration]).items():
            first = self._guests.setdefault(fingerprint, now)
            if fingerprint not in ours and chains.window(certificate).covers(wall) and now - first < GUESTS:
                ours[fingerprint] = certificate
        return ours

    def _named(self) -> list[str]:
        return [each.certificate.subject.rfc4514_string() for each in self.keeper.ring.members]

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            _logger.warning("the certificates' leader failed and tries again", extra={"problem": problem})
        self._problem = problem
