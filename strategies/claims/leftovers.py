"""Leftovers: extended resources such as `nvidia.com/gpu` in a container that gets a claim.

Kubernetes 1.36 makes a claim of its own for a resource that a DeviceClass maps, and a device plugin does not know about
claims; either way the pod gets the devices of both and uses only one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from msgspec import Struct

from muster.strategies.claims.requests import ClaimRequest, is_of
from muster.strategies.documents import decoding, model, names
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.paths import Path
from muster.strategies.documents.pods import ResourceRequirements
from muster.strategies.jobs.jobs import Job
from muster.strategies.platform import devices
from muster.strategies.platform.profiles import Profile
from muster.strategies.platform.supplies import DeviceClass

__all__ = ["Verdict", "judge"]


class Verdict(Struct, frozen=True):
    """What happens to the extended resources.

    Attributes:
        swapped: the resources that the profile replaces: path of the container, and name of the resource.
        instead: whether Kubernetes makes the claim by itself, so that Muster adds none.
        problems: findings about the resources that stay.
    """

    swapped: tuple[tuple[Path, str], ...] = ()
    instead: bool = False
    problems: tuple[Finding, ...] = ()


_Uses = Iterable[tuple[Mapping[str, str], Iterable[Path]]]


def judge(job: Job, request: ClaimRequest, profile: Profile | None, uses: _Uses) -> Verdict:
    """Judge the extended resources of each container that gets a claim.

    Args:
        job: the job with its supply.
        request: the request that is being planned.
        profile: profile of the request, None when it has none.
        uses: entries of `resourceClaims`, and the paths of the containers that use them.
    """
    swapped: list[tuple[Path, str]] = []
    problems: list[Finding] = []
    instead = False
    for path, entries in _by_container(uses).items():
        classes = [one for entry in entries for one in _classes(job, profile, entry)]
        for name, amount in devices.accelerators(decoding.read(_resources(request, path), model.Resources)).items():
            if profile is not None and profile.replaces == name:
                swapped.append((path, name))
                continue
            mapped = next((one for one in classes if one.maps(name)), None)
            field = _field(job, request, path, name)
            if mapped is not None and profile is not None and _is_plain(profile, request):
                problems.append(_left(field, profile, mapped, name, amount))
                instead = True
            elif mapped is not None:
                problems.append(_double(field, mapped, name, amount, request))
            elif any(devices.sounds_like_one(one.name) for one in classes):
                problems.append(_beside(field, name, amount, request))
    return Verdict(tuple(swapped), instead, tuple(problems))


def _by_container(uses: _Uses) -> dict[Path, list[Mapping[str, str]]]:
    out: dict[Path, list[Mapping[str, str]]] = {}
    for entry, containers in uses:
        for path in containers:
            out.setdefault(path, []).append(entry)
    return out


def _classes(job: Job, profile: Profile | None, entry: Mapping[str, str]) -> Iterator[DeviceClass]:
    """Yield the device classes of one claim, with the resource that each maps where that was looked up."""
    template, claim = entry.get("resourceClaimTemplateName"), entry.get("resourceClaimName")
    kind = "ResourceClaimTemplate" if template else "ResourceClaim"
    named = job.supply.named.get((kind, str(template or claim)))
    ours = profile is not None and is_of(entry, profile)
    wanted = named.classes if named else (profile.device_class,) if profile is not None and ours else ()
    for name in wanted:
        yield job.supply.classes.get(name) or DeviceClass(name)


def _is_plain(profile: Profile, request: ClaimRequest) -> bool:
    """Whether the claim means the same as the extended resource: a number of devices of the class, for one pod."""
    special = profile.selectors or profile.match_attributes or profile.config or profile.capacity
    return not (profile.is_shared or special or request.claims)


def _left(field: str, profile: Profile, mapped: DeviceClass, name: str, amount: int) -> Finding:
    if amount == profile.count:
        message = (
            f"no claim of profile {profile.name} was added, because DeviceClass {mapped.name} maps {name} and "
            "Kubernetes makes the claim by itself"
        )
        return warning(field, amount, message, rule="claims/left-to-kubernetes")
    message = (
        f"DeviceClass {mapped.name} maps {name}, so this asks for {amount} devices and profile {profile.name} for "
        f"{profile.count}; remove one of the two requests"
    )
    return error(field, amount, message, rule="claims/two-for-one")


def _double(field: str, mapped: DeviceClass, name: str, amount: int, request: ClaimRequest) -> Finding:
    message = (
        f"the container also has a claim ({request.because}) of DeviceClass {mapped.name}, which maps {name}, so each "
        f"pod would take the devices of both; {_advice(request, name)}"
    )
    return error(field, amount, message, rule="claims/two-for-one")


def _beside(field: str, name: str, amount: int, request: ClaimRequest) -> Finding:
    message = (
        f"the container also has a claim ({request.because}), so each pod gets the devices of both; if they are the "
        f"same devices, {_advice(request, name)}"
    )
    return warning(field, amount, message, rule="claims/two-for-one")


def _advice(request: ClaimRequest, name: str) -> str:
    return f"remove it, or set replaces: {name} in the profile" if request.profile else "remove one of the two"


def _resources(request: ClaimRequest, path: Path) -> ResourceRequirements:
    member, index = path[-2:]
    return cast("ResourceRequirements", request.template.raw_spec[str(member)][index].get("resources") or {})


def _field(job: Job, request: ClaimRequest, path: Path, name: str) -> str:
    """Return the field path at which the person who wrote the job finds the amount."""
    template, resources = request.template, _resources(request, path)
    part = "limits" if name in (resources.get("limits") or {}) else "requests"
    if job.kind == "JobSet":
        return template.field(*path[-2:], "resources", part, name)
    override = job.raw_trainer.get("resourcesPerNode") or {}
    if name in (override.get("limits") or ()) or name in (override.get("requests") or ()):
        return f"spec.trainer.resourcesPerNode.{part}[{name}]"
    kind = job.runtime.kind if job.runtime else names.CONTAINER_NODE
    return f"{kind} {template.field(*path[-2:], 'resources', part, name)}"
