"""`vandal.py FAULT ARGUMENT...`: `muster_rollouts.train`, whose adapter is hurt on the volume from version 3 on."""

import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from muster_rollouts import train
from muster_weights import folders, manifests, names

HURT = 3
WHOLE = folders.publish


def place(root: Path, told: names.Told, version: int) -> Path:
    return root / told.run / names.folder_of(version)


def torn(root: Path, told: names.Told) -> names.Told:
    data = place(root, told, told.version) / names.DATA
    data.write_bytes(data.read_bytes()[:-64])
    return told


def planted(root: Path, told: names.Told) -> names.Told:
    """Put the adapter of the version before, under this number and with a manifest that fits, in its place."""
    before, here = place(root, told, told.version - 1), place(root, told, told.version)
    shutil.rmtree(here)
    shutil.copytree(before, here)
    found = manifests.parse((before / names.MANIFEST).read_bytes())
    (here / names.MANIFEST).write_bytes(manifests.written(replace(found, version=told.version)))
    return told


FAULTS = {each.__name__: each for each in (torn, planted)}


def publish(root: Path, run: str, version: int, tensors: Iterable[folders.Named]) -> names.Told:
    told = WHOLE(root, run, version, tensors)
    return FAULTS[FAULT](root, told) if version == HURT else told


if __name__ == "__main__":
    FAULT = sys.argv.pop(1)
    folders.publish = publish
    train.main()
