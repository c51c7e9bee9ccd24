"""The supply: what the platform offers to claim, and what the cluster reports about it.

Admission reads it from memory, so the free seats are those of a moment ago. That is good enough to choose a claim and
to report who holds its seats; only the controller assigns seats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from muster.strategies.documents.findings import Finding, note, warning
from muster.strategies.platform.devices import is_accelerator
from muster.strategies.platform.profiles import Profile, claim_names, has_claim
from muster.strategies.platform.seats import count_of, seat_entries

__all__ = ["IMPLICIT_PREFIX", "NOTHING", "DeviceClass", "Holder", "Named", "Supply", "holders"]

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that Kubernetes maps to every DeviceClass (k8s 1.36, DRAExtendedResource)."""


class DeviceClass(Struct, frozen=True):
    """A DeviceClass of the cluster.

    Attributes:
        name: name of the class.
        extended_resource: `spec.extendedResourceName`, for which Kubernetes makes claims by itself; None when unset.
    """

    name: str
    extended_resource: str | None = None

    def maps(self, resource: str) -> bool:
        """Whether a limit of this extended resource takes devices of the class."""
        return resource in (self.extended_resource, IMPLICIT_PREFIX + self.name)


class Holder(Struct, frozen=True):
    """A pod that has a seat on a shared claim, or pods to come that will take several.

    Attributes:
        pod: its name.
        job: name of its JobSet.
        seats: how many seats, at least 1.
    """

    pod: str
    job: str
    seats: int = 1


class Named(Struct, frozen=True):
    """A ResourceClaim or ResourceClaimTemplate that a job names itself.

    Attributes:
        devices: accelerators of one claim, None where the allocation decides.
        classes: names of the device classes that it requests.
        requests: names of its requests.
        slices: MIG slices among its devices.
        fewest: the fewest accelerators that its alternatives give, where these are known; else as `devices`.
    """

    devices: int | None
    classes: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    slices: int = 0
    fewest: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it asks for 0 devices, rather than for devices that are no accelerators."""
        beside = bool(self.classes) and all(is_accelerator(each) is False for each in self.classes)
        return self.devices == 0 and not beside


class Supply(Struct, frozen=True):
    """What jobs can claim.

    Attributes:
        profiles: the profiles that the platform offers, by name.
        classes: device classes by name; None for one that does not exist. A missing name was not looked up.
        seats: holders of seats, by name of the shared claim; a claim that is missing here has no known holder.
        drained: names of shared claims whose profile has changed; no pod gets a seat there until they are replaced.
        named: claims and templates that jobs name themselves, by kind and name; None for one that does not exist.
        asked: whether any job may ask for a claim; False skips all reading of jobs for claims.
        whole: whether what was looked up and not found does not exist; else somebody may make it, or have made it.
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    classes: Mapping[str, DeviceClass | None] = field(default_factory=dict)
    seats: Mapping[str, tuple[Holder, ...]] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()
    named: Mapping[tuple[str, str], Named | None] = field(default_factory=dict)
    asked: bool = True
    whole: bool = True

    def lacks(self, kind: str, name: str) -> tuple[Callable[..., Finding], str] | None:
        """Return how to report that no claim or template of a name was found, and why; None where one may be."""
        if (kind, name) not in self.named or self.named[kind, name] is not None:
            return None
        if self.whole:
            return warning, f"no {kind} of this name was found; the pods wait until it exists"
        return note, f"no {kind} of this name is among these files; the pods wait until the cluster has one"

    def free(self, profile: Profile, claim: str) -> int:
        """Return the free seats of one shared claim."""
        if claim in self.drained:
            return 0
        return max(0, profile.max_sessions - sum(holder.seats for holder in self.seats.get(claim, ())))

    def roomiest(self, profile: Profile) -> str:
        """Return the shared claim with the most free seats, the first of equals."""
        return max(claim_names(profile), key=lambda claim: self.free(profile, claim))

    def maker(self, claim: str) -> Profile | None:
        """Return the shared profile that a claim of this name belongs to, None for any other claim."""
        return next((profile for profile in self.profiles.values() if has_claim(profile, claim)), None)


NOTHING = Supply()
"""The supply of a platform that offers nothing."""


def holders(claim: Mapping[str, Any]) -> tuple[Holder, ...]:
    """Return who holds the seats of a ResourceClaim, by its annotation; empty when it cannot be read."""
    held = [seat if isinstance(seat, dict) else {} for seat in seat_entries(claim).values()]
    return tuple(Holder(str(seat.get("pod", "?")), str(seat.get("job", "?")), count_of(seat)) for seat in held)
