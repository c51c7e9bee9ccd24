"""The authorities that replicas share: usually one, two while they change from one to the next.

What replicas agree on is a set that only grows and whose members expire by themselves. Joining two such sets is the
same in any order, so replicas that write at once, a Secret that was deleted, and a clock that is wrong can add an
authority too many and never lose one that somebody still uses.

A change of authority needs no signal between replicas either: each signs with the newest authority that clients trust
already (`signer`), so a leaf is never served before its authority is in their bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from certs import authorities, errors, pems

__all__ = ["LIMIT", "Ring", "backdating", "parse", "rotate", "signer"]

LIMIT = 4
"""Authorities kept at most, the newest: one is made at two thirds of the life of another, so two are usual."""

_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Ring:
    """Authorities, the newest first, each once; make one by `unexpired`."""

    members: tuple[authorities.Authority, ...] = ()

    @classmethod
    def unexpired(cls, found: Iterable[authorities.Authority], now: datetime) -> Ring:
        """The ring of those that have not expired at `now`, at most `LIMIT`."""
        kept = {each.fingerprint: each for each in found if each.window.not_after >= now}
        ordered = sorted(kept.values(), key=lambda each: (each.window.not_before, each.fingerprint), reverse=True)
        return cls(tuple(ordered[:LIMIT]))

    def joined(self, other: Ring, now: datetime) -> Ring:
        """All of both."""
        return Ring.unexpired((*self.members, *other.members), now)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """SHA-256 of each certificate, the newest first; equal rings have equal ones."""
        return tuple(each.fingerprint for each in self.members)

    @property
    def certificates(self) -> tuple[x509.Certificate, ...]:
        """What clients should trust."""
        return tuple(each.certificate for each in self.members)

    def due(self, now: datetime) -> bool:
        """Whether a successor should be made: there is none at all, or the newest is at two thirds of its life."""
        return not self.members or self.members[0].window.due(now)

    def pem(self) -> bytes:
        """Certificates and keys, each key behind its certificate: for a Secret, nothing else."""
        return b"".join(pems.certificate_pem(each.certificate) + pems.key_pem(each.key) for each in self.members)


def parse(text: bytes, origin: object, now: datetime) -> Ring:
    """The ring that `Ring.pem` wrote; MaterialError names `origin` when any part of it is damaged."""
    mark = b"-----BEGIN CERTIFICATE-----"
    head, *rest = text.split(mark)
    if head.strip() or not rest:
        raise errors.MaterialError(origin, "holds no certificate to begin with", "delete it: Muster writes it anew")
    pairs = [mark + each for each in rest]
    return Ring.unexpired(
        (authorities.load(each, each, bundle_origin=origin, key_origin=origin) for each in pairs), now
    )


def rotate(ring: Ring, now: datetime, *, validity: timedelta = authorities.VALIDITY) -> Ring:
    """The ring with a fresh authority in front."""
    fresh = authorities.create(now, validity=validity, backdating=backdating(validity))
    return Ring.unexpired((fresh, *ring.members), now)


def signer(
    ring: Ring, trusted: Mapping[str, bool], now: datetime, margin: timedelta = timedelta(0)
) -> authorities.Authority:
    """The authority that a replica signs with, so that clients accept the leaf.

    `trusted` holds the fingerprints of the certificates in every client's bundle, and whether that has been so long
    enough for each client to know. The newest such authority signs; if none has been there for long, the oldest that
    is there at all, which is the likeliest to be known; if there is none, nobody trusts us yet, and the newest signs.
    One that ends within `margin` gives way to any other in the bundles: its leaves would be shown to the last moment.

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
    """How far a shared certificate begins in the past: an hour, at most a tenth of its life.

    The clock of the replica that made it may be ahead of the clocks of those that look at it.
    """
    return min(_SKEW, validity / 10)
