"""Tensors in a folder: published with their manifest, read when the bytes are those that were published."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from muster.sessions.refusals import Refused
from muster.sessions.weights import hashes, manifest, streams
from muster.sessions.weights.folders import whole

__all__ = ["publish", "read"]

_BUFFER = 1 << 16  # bytes; larger tensors are read without it


def publish(
    folder: Path,
    tensors: Mapping[str, Mapping[str, Tensor]],
    texts: Mapping[str, str],
    about: Mapping[str, Any],
) -> None:
    """Write a folder of weights, whole or not at all; one that was there is replaced.

    Args:
        folder: to appear; its parent is made when it is missing.
        tensors: floating point, by file and name.
        texts: further files by name.
        about: JSON for the manifest.

    Raises:
        NoSpace: when the storage is full; what was in `folder` stays.
    """
    with whole(folder) as partial:
        entries = {name: _tensors(partial / name, each) for name, each in tensors.items()}
        entries |= {name: _write(partial / name, text.encode()) for name, text in texts.items()}
        manifest.write(partial, manifest.Manifest(entries, about))


def read(folder: Path, name: str) -> dict[str, Tensor]:
    """Return the tensors of one file. Raises `Refused` for a file that is not what the manifest says."""
    listed = manifest.read(folder)
    try:
        tensors = _read(folder / name, listed.files[name])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, FileNotFoundError) as fault:
        manifest.bytes_of(folder, name, listed)  # tells what else may be wrong
        raise Refused(f"weights: {folder.name}: {name} holds no tensors: pass another checkpoint") from fault
    if {key: _shape(tensor) for key, tensor in tensors.items()} != dict(listed.files[name].tensors):
        raise Refused(f"weights: {folder.name}: {name} holds other tensors than its manifest: pass another checkpoint")
    return tensors


def _read(path: Path, entry: manifest.Entry) -> dict[str, Tensor]:
    with path.open("rb", _BUFFER) as file:
        if os.fstat(file.fileno()).st_size != entry.size:
            raise ValueError("its size is another one")
        tensors, digest = streams.read(file, entry.size, entry.digest.name)
    if digest != entry.digest:
        raise ValueError("its hash is another one")
    return tensors


def _tensors(path: Path, tensors: Mapping[str, Tensor]) -> manifest.Entry:
    size, digest = streams.write(path, tensors)
    return manifest.Entry(size, digest, {name: _shape(tensor) for name, tensor in tensors.items()})


def _write(path: Path, data: bytes) -> manifest.Entry:
    path.write_bytes(data)
    return manifest.Entry(len(data), hashes.digest(data))


def _shape(tensor: Tensor) -> manifest.Shape:
    return manifest.Shape(streams.name_of(tensor.dtype), tuple(tensor.shape))
