"""Which device an engine has: from what the kernel says of its process, and the API server of its pod's claim.

The kernel names the control groups of a process, in which a kubelet puts the uid of its pod; the claim of that pod has
the uid in `status.reservedFor`, and the device in `status.allocation`. Nothing of it is what an engine says of itself.

Sources: Kubernetes 1.36 `pkg/kubelet/cm` (names of control groups), `resource.k8s.io/v1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["LABEL", "Claim", "Place", "claim_of", "pod_of", "uuid_of"]

LABEL = "muster.dev/profile"
"""Of the claims that Muster makes for a profile."""
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(?:/|$)")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A device, as an allocation names it."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim.

    Attributes:
        namespace: of it.
        name: of it.
        uid: of it.
        devices: that it was given.
        pods: names of those that may use it, by uid.
    """

    namespace: str
    name: str
    uid: str
    devices: tuple[Place, ...]
    pods: Mapping[str, str]


def pod_of(groups: str) -> str | None:
    """Return the uid of the pod that a process is in; None where it is in none.

    Args:
        groups: `/proc/PID/cgroup`. Where a budget is its device, one of the groups is that of the budget.
    """
    for line in groups.splitlines():
        found = _POD.search(line.rpartition(":")[2])
        if found:
            return found.group(1).replace("_", "-")
    return None


def claim_of(document: Mapping[str, Any]) -> Claim:
    """Return a ResourceClaim of what the API server says."""
    metadata, status = document["metadata"], document.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    users = status.get("reservedFor") or ()
    return Claim(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        tuple(Place(each["driver"], each["pool"], each["device"]) for each in results),
        {each["uid"]: each["name"] for each in users if each.get("resource") == "pods"},
    )


def uuid_of(place: Place, slices: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the attribute `uuid` of a device as its driver publishes it; None where it does not.

    Args:
        place: the device.
        slices: ResourceSlices of its node.
    """
    for spec in (each["spec"] for each in slices):
        if (spec["driver"], spec["pool"]["name"]) != (place.driver, place.pool):
            continue
        for device in spec.get("devices") or ():
            uuid = (device.get("attributes") or {}).get("uuid") or {}
            if device["name"] == place.device and "string" in uuid:
                return str(uuid["string"])
    return None
