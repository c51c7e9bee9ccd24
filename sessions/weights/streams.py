"""Tensors from memory to a file of safetensors and back without copies, hashed on the way.

The library joins all tensors to one text before it writes them, and takes a text apart after it was read, which takes
longer than to write, read and hash them. The format: eight bytes with the length of a header, JSON with type, shape and
place of each tensor, and the tensors one after the other (safetensors 0.8, `README.md`).
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from sessions.weights import hashes

__all__ = ["name_of", "read", "write"]

_TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_PIECE = 1 << 20  # bytes that are read at a time, so that the processor still has them when they are hashed
_LINE = 64  # bytes; torch puts tensors at multiples of it, and what kernels round to may depend on that
_MEMORY = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a type in files."""
    return _NAMES[dtype]


def write(path: Path, tensors: Mapping[str, Tensor]) -> tuple[int, hashes.Digest]:
    """Write tensors to the storage, and return the size of the file and its hash.

    It is hashed while the storage is at work, from the memory, and so is what was meant to be written.
    """
    plain = {name: each.detach().contiguous().cpu() for name, each in tensors.items()}
    order = sorted(plain, key=lambda name: (-plain[name].itemsize, name))  # so that each lies at its own size
    parts: list[bytes | memoryview] = [_header(plain, order), *(_bytes(plain[name]) for name in order)]
    with ThreadPoolExecutor(1) as beside, path.open("wb") as file:
        hashed = beside.submit(_hash, parts)
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
        return file.tell(), hashed.result()


def read(file: BinaryIO, size: int, name: str) -> tuple[dict[str, Tensor], hashes.Digest]:
    """Read tensors, and return them with the hash of all that was read. They share memory, which goes with the last.

    Args:
        file: at its begin.
        size: of all of it.
        name: of the hash.

    Raises:
        ValueError: for what is not a file of tensors of these types and this size; nothing larger is asked for then.
        Refused: for a hash that is not installed here.
    """
    digest = hashes.new(name)
    head = _taken(file, 8, digest)
    length = int.from_bytes(head, "little")
    if length > size - 8:
        raise ValueError("the header is longer than the file")
    placed = _placed(_listed(_taken(file, length, digest)), size - 8 - length)
    # One mapping whose pages are made at once: to fault on each of them takes longer than to read and hash it.
    room = memoryview(mmap.mmap(-1, sum(_rounded(count) for _, _, count in placed.values()) or 1, flags=_MEMORY))
    tensors, at = {}, 0
    for key, (shape, kind, count) in placed.items():
        part = room[at : at + count]
        for piece in _pieces(part):
            if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]  # of a file of bytes
                raise ValueError("the file is shorter than its header says")
            digest.update(piece)
        tensors[key] = torch.frombuffer(part, dtype=kind).view(shape) if count else torch.empty(shape, dtype=kind)
        at += _rounded(count)
    if file.read(1):
        raise ValueError("the file is longer than its header says")
    return tensors, hashes.Digest(name, digest.hexdigest())


def _placed(listed: Mapping[str, Any], size: int) -> dict[str, tuple[list[int], torch.dtype, int]]:
    """Return shape, type and bytes of each tensor in the order of the file. Raises `ValueError` for wrong places."""
    placed, at = {}, 0
    for name, each in sorted(listed.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = each["data_offsets"]
        shape, kind = [int(side) for side in each["shape"]], _TYPES[each["dtype"]]
        if begin != at or end - begin != _count(shape) * kind.itemsize or end > size:
            raise ValueError(f"{name[:80]}: its place is not that of its shape")
        placed[name], at = (shape, kind, end - begin), end
    return placed


def _rounded(count: int) -> int:
    return count + -count % _LINE


def _pieces(view: memoryview) -> Iterator[memoryview]:
    return (view[at : at + _PIECE] for at in range(0, len(view), _PIECE))


def _header(tensors: Mapping[str, Tensor], order: Sequence[str]) -> bytes:
    listed, at = {}, 0
    for name in order:
        each = tensors[name]
        end = at + each.numel() * each.itemsize
        listed[name] = {"dtype": _NAMES[each.dtype], "shape": list(each.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(listed, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _listed(text: bytes) -> dict[str, Any]:
    listed = json.loads(text)
    listed.pop("__metadata__", None)
    return dict(listed)


def _count(shape: Sequence[int]) -> int:
    if any(side < 0 for side in shape):
        raise ValueError("a side of a tensor is below 0")
    count = 1
    for side in shape:
        count *= side
    return count


def _bytes(tensor: Tensor) -> memoryview:
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())


def _taken(file: BinaryIO, size: int, digest: Any) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise ValueError("the file is shorter than its header")
    digest.update(data)
    return data


def _hash(parts: Sequence[bytes | memoryview]) -> hashes.Digest:
    digest = hashes.new()
    for part in parts:
        digest.update(part)
    return hashes.Digest(digest.name, digest.hexdigest())
