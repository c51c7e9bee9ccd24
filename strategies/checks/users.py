"""Users: images of root where root is forbidden, and files that the user of a container may not read.

Files of a ConfigMap or Secret belong to root, and fsGroup makes them readable for the group of the pod. Sources:
kubernetes `pkg/kubelet/kuberuntime/security_context_others.go` verifyRunAsNonRoot,
`pkg/volume/util/atomic_writer.go`, `pkg/volume/volume_linux.go` SetVolumeOwnership; the
Dockerfiles of the images name no USER.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.strategies.checks.programs import Volumes

__all__ = ["context_of", "root_image", "unreadable"]

_OF_ROOT = frozenset({"pytorch/pytorch", "nvidia/cuda", "nvcr.io/nvidia/pytorch", "nvcr.io/nvidia/cuda"})
_OTHERS, _GROUP = 0o004, 0o040
_MOST = 64  # words


def context_of(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the security context that holds for a container: that of its pod, and its own over it."""
    found: dict[str, Any] = {}
    for each in (pod, container):
        context = each.get("securityContext")
        if isinstance(context, dict):
            found.update(context)
    return found


def root_image(context: Mapping[str, Any], image: object) -> str:
    """Return why the kubelet does not start a container of an image, as a clause; "" where it may."""
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") is not None or not isinstance(image, str):
        return ""
    name = image.partition("@")[0].removeprefix("docker.io/")
    head, colon, tag = name.rpartition(":")
    if (head if colon and "/" not in tag else name) not in _OF_ROOT:
        return ""
    return "the image runs as root, and runAsNonRoot forbids it, so the container never starts; name a runAsUser"


def unreadable(
    context: Mapping[str, Any], argv: Sequence[str], volumes: Volumes, mounts: Sequence[Any]
) -> tuple[int, str] | None:
    """Return the word of a command line that is a file which its user may not read, and why; None for none."""
    user = context.get("runAsUser")
    if type(user) is not int or user == 0 or context.get("fsGroup") is not None:
        return None
    for index, word in enumerate(argv[1:_MOST], start=1):
        mode = volumes.mode_at(word, mounts)
        of_root = context.get("runAsGroup") in (None, 0)
        if mode is not None and not mode & _OTHERS and not (mode & _GROUP and of_root):
            message = (
                f"belongs to root with the mode {mode:04o}, and the container runs as user {user}, which may not read "
                "it; write fsGroup into the securityContext of the pod, or defaultMode: 0444"
            )
            return index, message
    return None
