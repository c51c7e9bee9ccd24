"""The supply: what the platform offers to claim, and what the cluster says of it.

Admission reads it from memory, so the free seats are those of a moment ago. That is good enough to choose a claim and
to say who holds its seats; only the controller gives seats away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strategies.platform.profiles import Profile, claim_names, has_claim
from strategies.platform.seats import seat_entries

__all__ = ["IMPLICIT_PREFIX", "DeviceClass", "Holder", "Named", "Supply", "holders"]

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before a class's name: the extended resource that Kubernetes maps to every class (k8s 1.36, DRAExtendedResource)."""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass of the cluster.

    Attributes:
        name: of the class.
        extended_resource: `spec.extendedResourceName`, for which Kubernetes makes claims by itself; None for none.
    """

    name: str
    extended_resource: str | None = None

    def maps(self, resource: str) -> bool:
        """Whether a limit of this extended resource takes devices of the class."""
        return resource in (self.extended_resource, IMPLICIT_PREFIX + self.name)


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that has a seat on a shared claim."""

    pod: str
    job: str


@dataclass(frozen=True, slots=True)
class Named:
    """A ResourceClaim or ResourceClaimTemplate that a job names itself.

    Attributes:
        devices: of one claim, None where the allocation decides.
        classes: names of the device classes that it asks.
    """

    devices: int | None
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Supply:
    """What there is to claim.

    Attributes:
        profiles: that the platform offers, by name.
        classes: by name; None for one that does not exist. A name that is missing here was not looked for.
        seats: who holds seats, by name of the shared claim; one that is missing here is not known to be held.
        drained: names of shared claims whose profile has changed since; nobody is seated there until they are replaced.
        named: by kind and name, what jobs name beside profiles; None for what does not exist.
        asked: whether anything may ask for it; False spares every look at the job, of which there are many.
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    classes: Mapping[str, DeviceClass | None] = field(default_factory=dict)
    seats: Mapping[str, tuple[Holder, ...]] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()
    named: Mapping[tuple[str, str], Named | None] = field(default_factory=dict)
    asked: bool = True

    def free(self, profile: Profile, claim: str) -> int:
        """Return the free seats of one shared claim."""
        if claim in self.drained:
            return 0
        return max(0, profile.max_sessions - len(self.seats.get(claim, ())))

    def roomiest(self, profile: Profile) -> str:
        """Return the shared claim with the most free seats, the first of several."""
        return max(claim_names(profile), key=lambda claim: self.free(profile, claim))

    def maker(self, claim: str) -> Profile | None:
        """Return the profile to whose shared claims one of this name belongs."""
        return next((profile for profile in self.profiles.values() if has_claim(profile, claim)), None)


def holders(claim: Mapping[str, Any]) -> tuple[Holder, ...]:
    """Return who holds the seats of a ResourceClaim, by its annotation; nobody where that cannot be read."""
    held = [seat if isinstance(seat, dict) else {} for seat in seat_entries(claim).values()]
    return tuple(Holder(str(seat.get("pod", "?")), str(seat.get("job", "?"))) for seat in held)
