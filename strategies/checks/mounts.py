"""Mounts: how a container mounts volumes, as far as the API server refuses it.

Source: kubernetes `pkg/apis/core/validation/validation.go` (ValidateVolumeMounts, validateMountPropagation,
validateMountRecursiveReadOnly).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.paths import Path

__all__ = ["Fault", "faults"]

Fault = tuple[Path, Any, str, str]
"""Place inside the container, value, message and rule."""

_REFUSED = "so the API server refuses the pod"
_RULE = "core/mount"


def faults(container: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with the mounts of a container.

    A patch of Trainer's has no image; what it does not write may stand in the runtime.
    """
    mounts = container["volumeMounts"]
    whole = "image" in container
    for index, mount in enumerate(mounts if isinstance(mounts, list) else ()):
        if not isinstance(mount, dict):
            continue
        place: Path = ("volumeMounts", index)
        for inside, value, message in _path(mount):
            yield (*place, inside), value, message, "core/sub-path"
        path = mount.get("mountPath")
        if isinstance(path, str) and ":" in path:
            yield (*place, "mountPath"), path, f"a mountPath has no colon, {_REFUSED}; write it without", _RULE
        if whole and "recursiveReadOnly" in mount:
            for inside, value, message in _read_only(mount):
                yield (*place, inside), value, message, _RULE
        if whole and mount.get("mountPropagation") == "Bidirectional" and not _is_privileged(container):
            message = f"is allowed only in a privileged container, {_REFUSED}; use HostToContainer, or remove it"
            yield (*place, "mountPropagation"), "Bidirectional", message, _RULE


def _path(mount: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    found = [name for name in ("subPath", "subPathExpr") if mount.get(name)]
    if len(found) > 1:
        yield "subPath", mount["subPath"], f"a mount has a subPath or a subPathExpr, {_REFUSED}; remove one of the two"
    for name in found:
        path = mount[name]
        if isinstance(path, str) and (path.startswith("/") or ".." in path.split("/")):
            yield name, path, f"a path inside a volume is relative and has no .., {_REFUSED}; write it without"


def _read_only(mount: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    value = mount["recursiveReadOnly"]
    if value not in ("Enabled", "IfPossible"):
        return
    if mount.get("readOnly") is not True:
        yield "recursiveReadOnly", value, f"needs readOnly: true, {_REFUSED}; add it, or remove this"
    elif mount.get("mountPropagation") not in (None, "None"):
        yield "recursiveReadOnly", value, f"excludes mountPropagation, {_REFUSED}; remove one of the two"


def _is_privileged(container: Mapping[str, Any]) -> bool:
    context = container.get("securityContext")
    return isinstance(context, dict) and context.get("privileged") is True
