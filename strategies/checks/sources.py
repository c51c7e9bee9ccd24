"""Sources of volumes: what the API server refuses of them, and what the kubelet never mounts.

Source: kubernetes `pkg/apis/core/validation/validation.go` (validateVolumeSource, validateProjectionSources,
ValidatePersistentVolumeClaimSpec), `pkg/volume/emptydir/empty_dir.go`.

Only members of the right type are judged: the API server refuses the others, and says so at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from muster.strategies.documents import loose, quantities
from muster.strategies.documents.findings import beginning
from muster.strategies.documents.paths import Path

__all__ = ["Fault", "faults", "lists_storage"]

Fault = tuple[Path, Any, str, str]
"""Place, value, message and rule."""
_Inner = tuple[Path, Any, str]

_REFUSED = "so the API server refuses the pod"
_SHOWN = 63  # characters of a name
_MEDIA = ("", "Memory", "HugePages")
_HOST_PATHS = ("DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")
_LEAST = 2**20  # bytes of an emptyDir
_MOST_MODE, _LEAST_TOKEN, _MOST_TOKEN = 0o777, 600, 2**32


def faults(volumes: Any) -> Iterator[Fault]:
    """Yield what is wrong with the volumes of one pod, each at its place inside the pod spec."""
    for index, volume in enumerate(loose.sequence(volumes)):
        for place, value, message in _volume(volume) if isinstance(volume, dict) else ():
            yield ("volumes", index, *place), value, message, "core/volume-source"


def _volume(volume: Mapping[str, Any]) -> Iterator[_Inner]:
    """Judge the source of a volume; one without a source is an emptyDir (SetDefaults_Volume)."""
    sources = [name for name, value in volume.items() if name != "name" and value is not None]
    if len(sources) > 1:
        held = " and ".join(beginning(each, _SHOWN) for each in sources[:3])
        message = f"a volume has one source, and this one has {held}, {_REFUSED}; keep one"
        yield (), None, message
    for source in sources:
        if source in _JUDGES and isinstance(volume[source], dict):
            yield from _JUDGES[source](source, volume[source])


def _claim(place: str, source: Mapping[str, Any]) -> Iterator[_Inner]:
    if source.get("claimName") == "":
        yield (place, "claimName"), "", f"needs the name of a claim, {_REFUSED}; write it"


def _host_path(place: str, source: Mapping[str, Any]) -> Iterator[_Inner]:
    kind = source.get("type")
    if isinstance(kind, str) and kind and kind not in _HOST_PATHS:
        yield (place, "type"), kind, f"is not {' or '.join(_HOST_PATHS)}, {_REFUSED}; use one of them"


def _empty(place: str, source: Mapping[str, Any]) -> Iterator[_Inner]:
    size = source.get("sizeLimit")
    if size is not None and _amount(size) < 0:
        yield (place, "sizeLimit"), size, f"is below 0, {_REFUSED}; raise it"
    elif size is not None and 0 < _amount(size) < _LEAST:
        message = f"is {float(_amount(size)):g} bytes, in which nothing fits; write the unit, such as 64Gi"
        yield (place, "sizeLimit"), size, message
    medium = source.get("medium")
    if isinstance(medium, str) and medium not in _MEDIA and not medium.startswith("HugePages-"):
        near = next((each for each in _MEDIA[1:] if each.lower() == medium.lower()), "")
        hint = f"; {near} may be meant" if near else "; use Memory, or remove it"
        message = f"is not a medium that the kubelet knows, so the pod never starts{hint}"
        yield (place, "medium"), medium, message


def _files(place: str, source: Mapping[str, Any]) -> Iterator[_Inner]:
    """Judge a source that makes files of an object of the API server."""
    yield from _modes((place,), source)


def _modes(place: Path, source: Mapping[str, Any]) -> Iterator[_Inner]:
    """Judge the modes of files, which are numbers of YAML: 0755 and 493 are the same, and 755 is another."""
    listed = source.get("items")
    every: list[tuple[Path, str, Any]] = [((), "defaultMode", source)]
    every += [(("items", index), "mode", each) for index, each in enumerate(loose.sequence(listed))]
    for inside, name, held in every:
        mode = loose.mapping(held).get(name)
        if type(mode) is int and not 0 <= mode <= _MOST_MODE:
            message = f"is above 0777 (511), {_REFUSED}; write an octal number such as 0755, which is 493"
            yield (*place, *inside, name), mode, message


def _projected(member: str, source: Mapping[str, Any]) -> Iterator[_Inner]:
    """Judge a projected volume and its parts (validateProjectionSources)."""
    yield from _modes((member,), source)
    parts = source.get("sources")
    paths: set[str] = set()
    for index, part in enumerate(loose.sequence(parts)):
        place: Path = (member, "sources", index)
        for each in ("configMap", "secret", "downwardAPI"):
            held = loose.member(part, each)
            yield from _modes((*place, each), held)
            yield from _paths((*place, each), held, paths)
        seconds = loose.member(part, "serviceAccountToken").get("expirationSeconds")
        if type(seconds) is int and not _LEAST_TOKEN <= seconds <= _MOST_TOKEN:
            message = f"a token lives at least {_LEAST_TOKEN} seconds, {_REFUSED}; raise it"
            yield (*place, "serviceAccountToken", "expirationSeconds"), seconds, message


def _paths(place: Path, source: Mapping[str, Any], known: set[str]) -> Iterator[_Inner]:
    """Judge the paths of the listed files of one part, each of which is added to those of the parts before."""
    listed = source.get("items")
    for index, item in enumerate(loose.sequence(listed)):
        path = loose.mapping(item).get("path")
        if isinstance(path, str) and path in known:
            message = f"another file of the volume has this path, {_REFUSED}; rename one"
            yield (*place, "items", index, "path"), path, message
        elif isinstance(path, str):
            known.add(path)


def _ephemeral(member: str, source: Mapping[str, Any]) -> Iterator[_Inner]:
    """Judge the claim of a volume that lives as long as its pod (ValidatePersistentVolumeClaimSpec)."""
    place: Path = (member, "volumeClaimTemplate", "spec")
    claim = loose.mapping(source.get("volumeClaimTemplate")).get("spec")
    if not isinstance(claim, dict):
        return
    if not claim.get("accessModes"):
        yield (*place, "accessModes"), None, f"needs at least one access mode, {_REFUSED}; add accessModes"
    if not lists_storage(claim):
        yield (*place, "resources", "requests"), None, f"needs storage, {_REFUSED}; add requests: {{storage: 10Gi}}"


_JUDGES: Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[_Inner]]] = {
    "configMap": _files,
    "downwardAPI": _files,
    "emptyDir": _empty,
    "ephemeral": _ephemeral,
    "hostPath": _host_path,
    "persistentVolumeClaim": _claim,
    "projected": _projected,
    "secret": _files,
}


def lists_storage(claim: Mapping[str, Any]) -> bool:
    """Whether a claim of a volume says how much storage it asks for."""
    return "storage" in loose.member(claim.get("resources"), "requests")


def _amount(written: object) -> Fraction | int:
    try:
        return quantities.value(written) if isinstance(written, str | int) else 0
    except ValueError:
        return 0  # the API server says so at once
