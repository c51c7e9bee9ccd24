"""The authorities that replicas share: usually one, and two during a change from one to the next.

Replicas agree on a set that only grows and whose members expire. Joining two such sets gives the same result in any
order, so replicas that write at once, a deleted Secret or a wrong clock can add one authority too many, but never lose
one that is still in use.

A change of authority needs no signal between replicas: each signs with the newest authority that clients already
trust (`signer`), so a leaf is never served before its authority is in their bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from muster.certs import authorities, errors, pems

__all__ = ["LIMIT", "Ring", "backdating", "parse", "rotate", "signer"]

LIMIT = 4
"""How many of the newest authorities are kept; two are usual, since one is made at two thirds of the other's life."""

_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Ring:
    """Authorities, the newest first, each once; made by `unexpired`."""

    members: tuple[authorities.Authority, ...] = ()

    @classmethod
    def unexpired(cls, found: Iterable[authorities.Authority], now: datetime) -> Ring:
        """The ring of the authorities that have not expired at `now`, at most `LIMIT`."""
        kept = {each.fingerprint: each for each in found if each.window.not_after >= now}
        ordered = sorted(kept.values(), key=lambda each: (each.window.not_before, each.fingerprint), reverse=True)
        return cls(tuple(ordered[:LIMIT]))

    def joined(self, other: Ring, now: datetime) -> Ring:
        """The authorities of both rings."""
        return Ring.unexpired((*self.members, *other.members), now)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """SHA-256 of each certificate, the newest first; equal rings have equal fingerprints."""
        return tuple(each.fingerprint for each in self.members)

    @property
    def certificates(self) -> tuple[x509.Certificate, ...]:
        """What clients should trust."""
        return tuple(each.certificate for each in self.members)

    def due(self, now: datetime) -> bool:
        """Whether a new authority should be made: the ring is empty, or its newest is at two thirds of its life."""
        return not self.members or self.members[0].window.due(now)

    def pem(self) -> bytes:
        """Certificates and keys, each key behind its certificate: for a Secret, nothing else."""
        return b"".join(pems.certificate_pem(each.certificate) + pems.key_pem(each.key) for each in self.members)


def parse(text: bytes, origin: object, now: datetime) -> Ring:
    """The ring that `Ring.pem` wrote; MaterialError names `origin` when any part of it is damaged."""
    mark = b"-----BEGIN CERTIFICATE-----"
    head, *rest = text.split(mark)
    if head.strip() or not rest:
        raise errors.MaterialError(origin, "does not begin with a certificate", "delete it: Muster writes it again")
    pairs = [mark + each for each in rest]
    return Ring.unexpired(
        (authorities.load(each, each, bundle_origin=origin, key_origin=origin) for each in pairs), now
    )


def rotate(ring: Ring, now: datetime, *, validity: timedelta = authorities.VALIDITY) -> Ring:
    """The ring with a new authority in front."""
    fresh = authorities.create(now, validity=validity, backdating=backdating(validity))
    return Ring.unexpired((fresh, *ring.members), now)


def signer(
    ring: Ring, trusted: Mapping[str, bool], now: datetime, margin: timedelta = timedelta(0)
) -> authorities.Authority:
    """The authority that a replica signs with, so that clients accept the leaf.

    `trusted` maps the fingerprints of the certificates in every client's bundle to whether each has been there long
    enough for all clients to know it. The newest such authority signs; if none has been there long enough, the oldest
    in the bundles signs, which clients most probably know; if none is in the bundles, no client trusts Muster yet, and
    the newest signs. An authority that expires within `margin` gives way to any other in the bundles, because its
    leaves would be served to the last moment.

    Raises AuthorityError when none is valid at `now`.
    """
    valid = [each for each in ring.members if each.window.covers(now)]
    if not valid:
        raise errors.AuthorityError("the shared authorities", f"none is valid at {now}", "correct the clock")
    known = [each for each in valid if each.fingerprint in trusted]
    known = [each for each in known if each.window.covers(now + margin)] or known
    settled = [each for each in known if trusted[each.fingerprint]]
    return settled[0] if settled else known[-1] if known else valid[0]


def backdating(validity: timedelta) -> timedelta:
    """How far in the past the validity of a shared certificate begins: an hour, at most a tenth of its life.

    The clock of the replica that made it may be ahead of the clocks of those that verify it.
    """
    return min(_SKEW, validity / 10)
