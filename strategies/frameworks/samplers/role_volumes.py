"""Volumes: whether a folder of the training is the same folder for its sampler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from muster.strategies.documents import loose
from muster.strategies.documents.pods import Place
from muster.strategies.frameworks.samplers.role_pairs import Pair

__all__ = ["apart", "differing"]

_OF_ONE_POD = frozenset({"emptyDir", "ephemeral", "configMap", "secret", "projected", "downwardAPI", "image"})


class _Mount(Struct, frozen=True):
    path: str
    source: tuple[str, str]
    below: str

    def holds(self, folder: str) -> bool:
        return folder == self.path or folder.startswith(f"{self.path.rstrip('/')}/")

    def inside(self, folder: str) -> str:
        """Return the path of a folder inside the volume."""
        return f"{self.below}/{folder.removeprefix(self.path)}".replace("//", "/").strip("/")


def apart(pair: Pair, folder: str) -> str | None:
    """Return why a folder is not the same for both roles under one path; None where it is, or may be."""
    found = _both(pair, folder, folder)
    if isinstance(found, str) or found is None:
        return found
    mine, theirs = found
    same = (mine.source, mine.path, mine.below) == (theirs.source, theirs.path, theirs.below)
    return None if same else f"the roles have different volumes there, or mount one at {mine.path} and {theirs.path}"


def differing(pair: Pair, mine: str, theirs: str) -> str | None:
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
    container: Mapping[str, Any] = place.raw
    for each in loose.mappings(container.get("volumeMounts")):
        path, name = each.get("mountPath"), each.get("name")
        if isinstance(path, str) and isinstance(name, str):
            below = str(each.get("subPath") or each.get("subPathExpr") or "")
            yield _Mount(path.rstrip("/") or "/", sources.get(name, ("", name)), below)


def _sources(pair: Pair, place: Place) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the kind and the identity of each volume, by its name in the pod."""
    for policy in loose.mappings(pair.spec.get("volumeClaimPolicies")):
        for template in loose.mappings(policy.get("templates")):
            name = str((template.get("metadata") or {}).get("name"))
            yield name, ("volumeClaimPolicies", name)
    for volume in loose.mappings(place.raw_pod.get("volumes")):
        kind = next((each for each in volume if each != "name"), "emptyDir")
        yield str(volume.get("name")), (kind, repr(volume.get(kind)))
