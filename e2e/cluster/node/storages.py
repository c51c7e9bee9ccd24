"""Reads what buildah has in its storage: an image's configuration, and the folders that its layers are.

A layer there is a folder in the form in which the kernel's overlay takes it, and so does containerd keep its own. Who
reads it there needs neither an archive of the image nor a second copy of its files.

Source: containers/storage, `images.go` and `layers.go`, whose JSON files these are; `drivers/overlay` for the folders.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError

__all__ = ["Layer", "read"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of an image.

    Attributes:
        digest: `sha256:...` of its uncompressed tar file, by which the image's configuration names it.
        size: bytes of that tar file.
        folder: its files, with overlay's own marks for what it removes.
    """

    digest: str
    size: int
    folder: Path


def read(root: Path, name: str) -> list[Layer]:
    """Return the layers of the image called `name`, bottom first.

    Args:
        root: buildah's `--root`, of its overlay driver.
        name: its name with the tag.

    Raises:
        ClusterError: the image does not exist.
    """
    images = json.loads((root / "overlay-images" / "images.json").read_text())
    tops = [image["layer"] for image in images if name in image.get("names", [])]
    if not tops:
        raise ClusterError(f"{name}: this image does not exist in {root}")
    known = {layer["id"]: layer for layer in json.loads((root / "overlay-layers" / "layers.json").read_text())}
    found: list[Layer] = []
    above: str | None = tops[0]
    while above:
        layer = known[above]
        found.append(Layer(layer["diff-digest"], layer["diff-size"], root / "overlay" / above / "diff"))
        above = layer.get("parent")
    return found[::-1]
