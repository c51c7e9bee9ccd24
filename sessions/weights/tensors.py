"""Tensors in a folder: published with their manifest, read when the bytes are those that were published."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from sessions.refusals import Refused
from sessions.weights import manifest
from sessions.weights.folders import whole

__all__ = ["publish", "read"]

_DTYPES = {"torch.float32": "F32", "torch.bfloat16": "BF16", "torch.float16": "F16", "torch.float64": "F64"}


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
        entries |= {name: _write(partial / name, text.encode(), {}) for name, text in texts.items()}
        manifest.write(partial, manifest.Manifest(entries, about))


def read(folder: Path, name: str) -> dict[str, Tensor]:
    """Return the tensors of one file. Raises `Refused` for a file that is not what the manifest says."""
    listed = manifest.read(folder)
    data = manifest.bytes_of(folder, name, listed)
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError) as fault:
        raise Refused(f"weights: {folder.name}: {name} holds no tensors: pass another checkpoint") from fault
    if {key: _shape(tensor) for key, tensor in tensors.items()} != dict(listed.files[name].tensors):
        raise Refused(f"weights: {folder.name}: {name} holds other tensors than its manifest: pass another checkpoint")
    return tensors


def _tensors(path: Path, tensors: Mapping[str, Tensor]) -> manifest.Entry:
    plain = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    shapes = {name: _shape(tensor) for name, tensor in plain.items()}
    return _write(path, safetensors.torch.save(plain), shapes)


def _write(path: Path, data: bytes, tensors: Mapping[str, manifest.Shape]) -> manifest.Entry:
    path.write_bytes(data)
    return manifest.Entry(len(data), hashlib.sha256(data).hexdigest(), tensors)


def _shape(tensor: Tensor) -> manifest.Shape:
    return manifest.Shape(_DTYPES[str(tensor.dtype)], tuple(tensor.shape))
