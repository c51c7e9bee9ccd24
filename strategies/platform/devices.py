"""Devices: how many of them a pod gets. What Trainer counts instead is in `strategies.trainer.resources`.

A pod can use only one of several MIG slices: CUDA shows a process one slice, whatever its container holds (NVIDIA MIG
user guide, device enumeration), so a second rank fails with an invalid device ordinal (pytorch/pytorch#130181).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strategies.documents import quantities
from strategies.documents.pods import ResourceRequirements

__all__ = ["Devices", "accelerators", "gpus", "seen", "sounds_like_one"]

_Amounts = Mapping[str, str | int]
_ACCELERATOR = re.compile(r"gpu|gaudi|ascend|tpu|npu|neuron|mlu|dcu|xpu|vcuda", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Devices:
    """What one pod of the job gets.

    Attributes:
        count: devices for which a process can be started; None when it is unknown: for a claim, or for a resource whose
            amount is not a number of devices (`aliyun.com/gpu-mem`, shares of a GPU, another vendor's accelerator).
        kind: `gpu`, `mig`, `claim`, `other` or `none`.
        idle: devices that no process can reach.
    """

    count: int | None
    kind: str
    idle: int = 0


def seen(
    resources: ResourceRequirements, pod_claims: Iterable[Mapping[str, Any]], known: Mapping[str, int | None]
) -> Devices:
    """Count the devices of a container.

    Args:
        resources: resources of the container, after Trainer's merge.
        pod_claims: the pod's `resourceClaims`.
        known: devices by ResourceClaimTemplate or ResourceClaim name.
    """
    names = _names(resources)
    if whole := gpus(resources):
        return Devices(whole, "gpu")
    slices = sum(_largest(resources, name) for name in names if "/mig-" in name)
    if slices:
        return Devices(1, "mig", idle=slices - 1)
    claimed = _claimed(resources, pod_claims, known)
    if claimed.kind == "none" and any(_ACCELERATOR.search(name) and _largest(resources, name) for name in names):
        return Devices(None, "other")
    return claimed


def gpus(resources: ResourceRequirements) -> int:
    """Return the whole GPUs asked for: resources named `<vendor>/gpu`, not shares of one (`nvidia.com/gpumem`)."""
    exact = [name for name in _names(resources) if name.rsplit("/", 1)[-1].lower() == "gpu"]
    return sum(_largest(resources, name) for name in exact)


def accelerators(resources: ResourceRequirements) -> dict[str, int]:
    """Return the devices asked for as extended resources, by resource name: GPUs, MIG slices and the like."""
    found = {name: _largest(resources, name) for name in _names(resources) if "/" in name}
    return {name: amount for name, amount in found.items() if amount and sounds_like_one(name)}


def sounds_like_one(name: str) -> bool:
    """Whether the name of a resource or a device class is one of an accelerator, rather than of a network card."""
    return "mig" in re.split(r"[-./]", name) or _ACCELERATOR.search(name) is not None


def _claimed(
    resources: ResourceRequirements, pod_claims: Iterable[Mapping[str, Any]], known: Mapping[str, int | None]
) -> Devices:
    wanted = {claim.get("name") for claim in resources.get("claims") or ()}
    counts = [
        known.get(str(claim.get("resourceClaimTemplateName") or claim.get("resourceClaimName")))
        for claim in pod_claims
        if claim.get("name") in wanted
    ]
    if not counts:
        return Devices(0, "none")
    return Devices(None if None in counts else sum(count or 0 for count in counts), "claim")


def _names(resources: ResourceRequirements) -> list[str]:
    return list({**(resources.get("requests") or {}), **(resources.get("limits") or {})})


def _largest(resources: ResourceRequirements, name: str) -> int:
    amounts: tuple[_Amounts, _Amounts] = (resources.get("requests") or {}, resources.get("limits") or {})
    return max(quantities.count(amount.get(name)) for amount in amounts)
