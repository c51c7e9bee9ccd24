"""Profiles: named claims on devices that a platform offers to its jobs.

A profile says what to claim (resource.k8s.io/v1, Dynamic Resource Allocation) and how pods get it: *dedicated*, a
ResourceClaimTemplate from which each pod gets a claim of its own, or *shared*, ResourceClaims that several pods use at
the same time, each up to a number of sessions. Jobs name profiles; the objects are made by `webhook/controllers`, under
the names that this module gives them, so that admission and controller agree without talking to each other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

__all__ = ["REQUEST", "Profile", "claim_names", "claim_spec", "has_claim", "spec_hash", "template_name"]

REQUEST = "devices"
"""Name of the one request in a claim of a profile."""
_PREFIX = "muster-"


class Profile(Struct, frozen=True):
    """One profile.

    Attributes:
        name: a DNS label of at most 40 characters.
        device_class: name of the DeviceClass.
        count: devices of one claim, at least 1.
        selectors: CEL expressions; a device has to satisfy all of them.
        match_attributes: names of attributes that all devices of a claim must share (constraints).
        config: opaque driver configuration, `{driver, parameters}` each; needs a driver that takes it.
        capacity: amounts asked of each device, by the name that the driver publishes (consumable capacity).
        sharing: `dedicated` or `shared`.
        max_sessions: pods that use one shared claim at the same time, 1 to 256 (the limit of `status.reservedFor`).
        claims: shared claims in each namespace that uses the profile.
        when_full: whether a job that finds no seat waits, or is refused at CREATE.
        replaces: extended resource, such as `nvidia.com/gpu`, that the claim replaces on a JobSet; None leaves that to
            Kubernetes' own mapping of extended resources to device classes.
        memory: host memory request of each pod, a quantity; None leaves the pods' own request.
    """

    name: str
    device_class: str
    count: int = 1
    selectors: tuple[str, ...] = ()
    match_attributes: tuple[str, ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    sharing: Literal["dedicated", "shared"] = "dedicated"
    max_sessions: int = 1
    claims: int = 1
    when_full: Literal["wait", "deny"] = "wait"
    replaces: str | None = None
    memory: str | None = None

    @property
    def is_shared(self) -> bool:
        """Whether several pods use the same claim."""
        return self.sharing == "shared"


def template_name(profile: Profile) -> str:
    """Return the name of a dedicated profile's ResourceClaimTemplate, the same in every namespace."""
    return _PREFIX + profile.name


def claim_names(profile: Profile) -> tuple[str, ...]:
    """Return the names of a shared profile's ResourceClaims, the same in every namespace."""
    return tuple(f"{_PREFIX}{profile.name}-{number}" for number in range(profile.claims))


def has_claim(profile: Profile, name: object) -> bool:
    """Whether one of a shared profile's ResourceClaims has this name."""
    if not profile.is_shared or not isinstance(name, str):
        return False
    number = name.removeprefix(f"{_PREFIX}{profile.name}-")
    return number != name and number.isdecimal() and str(int(number[:9])) == number and int(number) < profile.claims


def claim_spec(profile: Profile) -> dict[str, Any]:
    """Return `spec` of a ResourceClaim of this profile (resource.k8s.io/v1)."""
    exactly: dict[str, Any] = {
        "deviceClassName": profile.device_class,
        "allocationMode": "ExactCount",
        "count": profile.count,
    }
    if profile.selectors:
        exactly["selectors"] = [{"cel": {"expression": each}} for each in profile.selectors]
    if profile.capacity:
        exactly["capacity"] = {"requests": dict(profile.capacity)}
    devices: dict[str, Any] = {"requests": [{"name": REQUEST, "exactly": exactly}]}
    if profile.match_attributes:
        devices["constraints"] = [{"requests": [REQUEST], "matchAttribute": each} for each in profile.match_attributes]
    if profile.config:
        devices["config"] = [{"requests": [REQUEST], "opaque": dict(each)} for each in profile.config]
    return {"devices": devices}


def spec_hash(profile: Profile) -> str:
    """Return 16 hexadecimal digits that change when the spec of the profile's claims changes."""
    text = json.dumps(claim_spec(profile), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
