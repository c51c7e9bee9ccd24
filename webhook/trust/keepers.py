"""What every replica does: keep the shared authorities, see which of them are trusted, and sign accordingly.

While the API server is unreachable the replica works from memory: leaves are still renewed with the known authority.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from muster.certs import expiries, material_sources, rings
from muster.webhook.trust import bundles, secrets

__all__ = ["Clocks", "Keeper", "TrustRules"]


@dataclass(frozen=True, slots=True)
class TrustRules:
    """How authorities come into use.

    Attributes:
        settle: seconds for which a certificate must have been in the bundles before leaves that it signed are served:
            API servers learn of a change one after the other, usually within a second.
        validity: the lifetime of an authority.
    """

    settle: float
    validity: timedelta


@dataclass(frozen=True, slots=True)
class Clocks:
    """The two clocks of a replica.

    Attributes:
        wall: the wall clock, for the validity of certificates.
        steady: monotonic seconds.
    """

    wall: expiries.Clock = expiries.utc_now
    steady: Callable[[], float] = time.monotonic


@dataclass(slots=True, eq=False)
class Keeper:
    """One replica's view of the authorities and of which of them are trusted.

    Attributes:
        secret: the Secret that holds the authorities.
        configurations: the webhook configurations whose bundles decide what is trusted.
        source: receives the authorities to sign with.
        rules: see `Rules`.
        clocks: see `Clocks`.
        ring: the authorities, empty before the first `look`.
        found: the webhook configurations as last read, None before the first read.
    """

    secret: secrets.SharedSecret
    configurations: bundles.Configurations
    source: material_sources.SharedSource
    rules: TrustRules
    clocks: Clocks = field(default_factory=Clocks)
    _since: Mapping[str, float] = field(default_factory=dict, init=False)
    ring: rings.Ring = field(default_factory=rings.Ring, init=False)
    found: tuple[bundles.Configuration, ...] | None = field(default=None, init=False)

    async def look(self) -> None:
        """Read Secret and configurations once, write back what the Secret has lost, and update the source.

        The first replica makes the first authority; when several do so at once, they all end up with the same one.

        Raises:
            CertificateError, TransportError: the Secret cannot be used; what was known before stays in use.
        """
        try:
            self.ring = await self._shared()
            self.found = await self.configurations.read()
        finally:
            # Also when the API server is unreachable: certificates in the bundles settle as time passes.
            self._tell()

    async def rotate(self) -> None:
        """Put a new authority in front of the shared ones.

        Raises:
            CertificateError, TransportError: as for `look`; nothing has changed then.
        """
        self.ring = await self.secret.join(self._rotated(self.ring))

    def problem(self) -> str:
        """Return why no API server could accept the served certificate, "" when no reason is known."""
        if not self.ring.members:
            return "the shared authorities have not been read yet"
        if self.found is None:
            return "the webhook configurations have not been read yet, so it is not known which authorities are trusted"
        known = bundles.trusted(self.found)
        if self.found and not any(each in known for each in self.ring.fingerprints):
            spoilt = ", ".join(map(str, self.found))
            return f"caBundle of {spoilt} does not contain Muster's authority; the leader writes it within seconds"
        return ""

    def live_bundles(self) -> tuple[bytes, ...]:
        """Return the distinct bundles of the configurations; none while there is no configuration."""
        return tuple(dict.fromkeys(bundle for each in self.found or () for bundle in each.bundles))

    async def _shared(self) -> rings.Ring:
        ring = await self.secret.join(self.ring)
        if any(each.window.covers(self.clocks.wall()) for each in ring.members):
            return ring
        return await self.secret.begin(self._rotated(ring))

    def _rotated(self, ring: rings.Ring) -> rings.Ring:
        return rings.rotate(ring, self.clocks.wall(), validity=self.rules.validity)

    def _tell(self) -> None:
        if not self.ring.members:
            return
        now = self.clocks.steady()
        known = bundles.trusted(self.found or ())
        self._since = {fingerprint: self._since.get(fingerprint, now) for fingerprint in known}
        self.source.update(self.ring, {each: now - since >= self.rules.settle for each, since in self._since.items()})
