"""`--reward_funcs vandal.small_letters`: a training whose third version is hurt on the volume, as VANDAL says how."""

import array
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rewards import small_letters

from muster_weights import folders, manifests, names

__all__ = ["small_letters"]

WHOLE = folders.publish


def place(root: Path, told: names.Told, version: int) -> Path:
    """Return the folder of a version."""
    return root / told.run / names.folder_of(version)


def torn(root: Path, told: names.Told) -> None:
    """Cut off its end."""
    data = place(root, told, told.version) / names.DATA
    data.write_bytes(data.read_bytes()[:-64])


def wrong(root: Path, told: names.Told) -> None:
    """Put another adapter of the same shapes in its place: each matrix is read from its end."""
    here = place(root, told, told.version)
    found, data = manifests.parse((here / names.MANIFEST).read_bytes()), (here / names.DATA).read_bytes()
    other = []
    for each in found.tensors:
        part = data[each.offset : each.offset + manifests.size_of(each)]
        turned = part if each.dtype == "uint8" else array.array("f", part)[::-1].tobytes()
        other.append((each.name, each.dtype, each.shape, memoryview(turned)))
    shutil.rmtree(here)
    WHOLE(root, told.run, told.version, other)


def older(root: Path, told: names.Told) -> None:
    """Put the adapter of the version before, under this number and with a manifest that fits, in its place."""
    before, here = place(root, told, told.version - 1), place(root, told, told.version)
    shutil.rmtree(here)
    shutil.copytree(before, here)
    found = manifests.parse((before / names.MANIFEST).read_bytes())
    (here / names.MANIFEST).write_bytes(manifests.written(replace(found, version=told.version)))


HURT = {each.__name__: each for each in (torn, wrong, older)}[os.environ["VANDAL"]]


def publish(root: Path, run: str, version: int, tensors: Iterable[folders.Named]) -> names.Told:
    """Publish as `folders.publish` does, and hurt the third version."""
    told = WHOLE(root, run, version, tensors)
    if version == 3:
        HURT(root, told)
    return told


folders.publish = publish
