"""Resources: the devices and volumes of the two roles, and whether both have the same one.

The sampler's devices are those that it will have once its claims are written. A folder that both roles use has to be
the same folder of one volume.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from muster.strategies.claims import plans
from muster.strategies.claims.plans import ClaimPlan
from muster.strategies.documents import decoding
from muster.strategies.documents.pods import Place
from muster.strategies.frameworks.samplers.role_pairs import Pair
from muster.strategies.launches import topologies

__all__ = ["count_devices", "idle_role", "shared_claim", "shared_profile", "why_apart", "why_differing"]

_OF_ONE_POD = frozenset({"emptyDir", "ephemeral", "configMap", "secret", "projected", "downwardAPI", "image"})


def count_devices(pair: Pair) -> int | None:
    """Return how many devices the sampler will have; None when unknown, 0 for none."""
    plan = _plan(pair, pair.sampler.place)
    if plan is None or pair.sampler.place.container.resources.claims:
        return topologies.own_devices(pair.job, pair.sampler.place).count
    counts = [use.devices for use in plan.uses]
    known = counts and None not in counts
    return sum(each or 0 for each in counts) if known else None


def idle_role(pair: Pair) -> str | None:
    """Return the name of the replicated job that asks for no device, None where both do or may."""
    if topologies.read_topology(pair.job).on_cpu:
        return pair.node.job_name
    return pair.sampler.name if count_devices(pair) == 0 else None


def shared_claim(pair: Pair) -> str | None:
    """Return the name of a ResourceClaim that the containers of both roles use, None for none."""
    return min(_claims(pair.node) & _claims(pair.sampler.place), default=None)


def shared_profile(pair: Pair) -> str | None:
    """Return the name of a shared profile of which both roles get a claim, which may be the same one."""
    every = (_plan(pair, place) for place in (pair.node, pair.sampler.place))
    mine, theirs = (plan.profile.name if plan and plan.is_gated and plan.profile else None for plan in every)
    return mine if mine == theirs else None


def _plan(pair: Pair, place: Place) -> ClaimPlan | None:
    if pair.job.kind == "JobSet":
        return plans.plan_part(pair.job, place.job_path)
    every = plans.plan_claims(pair.job) if pair.job.supply.asked else []
    return next((plan for plan in every if plan.request.template.job.name == place.job_name), None)


def _claims(place: Place) -> set[str]:
    used = {each.name for each in place.container.resources.claims}
    return {each.resource_claim_name for each in place.pod.resource_claims if each.name in used} - {""}


class _Mount(Struct, frozen=True):
    path: str
    source: tuple[str, str]
    below: str

    def holds(self, folder: str) -> bool:
        return folder == self.path or folder.startswith(f"{self.path.rstrip('/')}/")

    def inside(self, folder: str) -> str:
        """Return the path of a folder inside the volume."""
        return f"{self.below}/{folder.removeprefix(self.path)}".replace("//", "/").strip("/")


def why_apart(pair: Pair, folder: str) -> str | None:
    """Return why a folder is not the same for both roles under one path; None where it is, or may be."""
    found = _both(pair, folder, folder)
    if isinstance(found, str) or found is None:
        return found
    mine, theirs = found
    same = (mine.source, mine.path, mine.below) == (theirs.source, theirs.path, theirs.below)
    return None if same else f"the roles have different volumes there, or mount one at {mine.path} and {theirs.path}"


def why_differing(pair: Pair, mine: str, theirs: str) -> str | None:
    """Return why a folder of the training is another one than a folder of the sampler; None where it is not known."""
    found = _both(pair, mine, theirs)
    if isinstance(found, str) or found is None:
        return found
    one, other = found
    if one.source != other.source:
        return "the two roles have different volumes there"
    same = one.inside(mine) == other.inside(theirs)
    return None if same else f"{mine} and {theirs} are different folders of that volume"


def _both(pair: Pair, mine: str, theirs: str) -> tuple[_Mount, _Mount] | str | None:
    """Return the mounts that hold a folder of each role, or why one has none; None where they cannot be compared."""
    found = []
    for place, folder in ((pair.node, mine), (pair.sampler.place, theirs)):
        mount = _mount(pair, place, folder)
        if mount is None:
            return f"no volume of {place.job_name} is mounted there"
        if mount.source[0] in _OF_ONE_POD:
            return f"{place.job_name} has {mount.source[0]} there, which each pod has for itself"
        found.append(mount)
    unknown = any(mount.source[0] == "" or "$" in mount.below for mount in found)
    return None if unknown else (found[0], found[1])


def _mount(pair: Pair, place: Place, folder: str) -> _Mount | None:
    """Return the mount of a container that holds a folder: the one with the longest path."""
    found = [each for each in _mounts(pair, place) if each.holds(folder)]
    return max(found, key=lambda each: len(each.path), default=None)


def _mounts(pair: Pair, place: Place) -> Iterator[_Mount]:
    sources = dict(_sources(pair, place))
    for each in place.container.volume_mounts:
        if each.mount_path and each.name:
            source = sources.get(each.name, ("", each.name))
            yield _Mount(each.mount_path.rstrip("/") or "/", source, each.sub_path or each.sub_path_expr)


def _sources(pair: Pair, place: Place) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the kind and the identity of each volume, by its name in the pod."""
    for policy in pair.spec.volume_claim_policies:
        for template in policy.templates:
            yield template.metadata.name, ("volumeClaimPolicies", template.metadata.name)
    for volume in decoding.mappings(place.raw_pod.get("volumes")):  # all of a source tells it from others
        kind = next((each for each in volume if each != "name"), "emptyDir")
        yield str(volume.get("name")), (kind, repr(volume.get(kind)))
