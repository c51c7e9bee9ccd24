"""Mounts: which volume of a pod holds a path, and whether anything can be written there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["CLAIM", "holding", "holds", "is_shared", "why_fixed"]

CLAIM = "persistentVolumeClaim"
"""Kind of a volume that is a claim of its own name: the same storage for all pods that name it."""
_SHARED = frozenset({CLAIM, "nfs", "cephfs", "glusterfs", "azureFile", "quobyte"})
_DRIVERS = frozenset({"gcsfuse.csi.storage.gke.io", "file.csi.azure.com", "blob.csi.azure.com", "nfs.csi.k8s.io"})
_FIXED = frozenset({"configMap", "secret", "projected", "downwardAPI", "image"})


def holding(path: str, mounts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the mount with the longest path that holds a path, None where it is in the container's own file system."""
    found = [each for each in mounts if isinstance(each.get("mountPath"), str) and holds(each["mountPath"], path)]
    return max(found, key=lambda each: len(each["mountPath"]), default=None)


def holds(mount: str, path: str) -> bool:
    """Whether a path is a folder or in it."""
    return path == mount.rstrip("/") or path.startswith(f"{mount.rstrip('/')}/")


def is_shared(mount: Mapping[str, Any], volumes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all pods with a mount see the same files there; a path that differs from pod to pod is not shared."""
    volume = next((each for each in volumes if each.get("name") == mount.get("name")), {})
    driver = volume["csi"].get("driver") if isinstance(volume.get("csi"), dict) else None
    apart = "$(" in str(mount.get("subPathExpr") or "")
    return not apart and (driver in _DRIVERS or any(volume.get(kind) is not None for kind in _SHARED))


def why_fixed(mount: Mapping[str, Any], volumes: Iterable[Mapping[str, Any]]) -> str:
    """Return why nothing can be written into a volume, "" where something may be."""
    if mount.get("readOnly") is True:
        return "is mounted read-only"
    volume = next((each for each in volumes if each.get("name") == mount.get("name")), {})
    for kind, source in volume.items():
        if kind in _FIXED and source is not None:
            return f"is of kind {kind}, which is always read-only"
        if isinstance(source, dict) and source.get("readOnly") is True:
            return "is read-only"
    return ""
