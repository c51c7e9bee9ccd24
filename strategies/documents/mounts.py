"""Mounts: which volume of a pod holds a path, and whether anything can be written there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.strategies.documents.model import Volume, VolumeMount

__all__ = ["holding", "holds", "is_shared", "volume", "why_fixed"]

_SHARED = frozenset({"persistentVolumeClaim", "nfs", "cephfs", "glusterfs", "azureFile", "quobyte"})
_DRIVERS = frozenset({"gcsfuse.csi.storage.gke.io", "file.csi.azure.com", "blob.csi.azure.com", "nfs.csi.k8s.io"})
_FIXED = frozenset({"configMap", "secret", "projected", "downwardAPI", "image"})


def holding(path: str, mounts: Sequence[VolumeMount]) -> VolumeMount | None:
    """Return the mount with the longest path that holds a path, None where it is in the container's own file system."""
    found = [each for each in mounts if each.mount_path and holds(each.mount_path, path)]
    return max(found, key=lambda each: len(each.mount_path), default=None)


def holds(mount: str, path: str) -> bool:
    """Whether a path is a folder or in it."""
    return path == mount.rstrip("/") or path.startswith(f"{mount.rstrip('/')}/")


def volume(mount: VolumeMount, volumes: Iterable[Volume]) -> Volume:
    """Return the volume of a mount; one without a source where the pod has none of this name."""
    return next((each for each in volumes if each.name == mount.name), Volume())


def is_shared(mount: VolumeMount, volumes: Iterable[Volume]) -> bool:
    """Whether all pods with a mount see the same files there; a path that differs from pod to pod is not shared."""
    found = volume(mount, volumes)
    known = found.csi is not None and found.csi.driver in _DRIVERS
    return "$(" not in mount.sub_path_expr and (known or not _SHARED.isdisjoint(found.sources))


def why_fixed(mount: VolumeMount, volumes: Iterable[Volume]) -> str:
    """Return why nothing can be written into a volume, "" where something may be."""
    if mount.read_only:
        return "is mounted read-only"
    for kind, source in volume(mount, volumes).sources.items():
        if kind in _FIXED:
            return f"is of kind {kind}, which is always read-only"
        if getattr(source, "read_only", False):
            return "is read-only"
    return ""
