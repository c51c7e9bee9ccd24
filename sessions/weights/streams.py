"""Tensors from memory to a file of safetensors and back without copies, hashed on the way.

The library joins all tensors to one text before it writes them, and takes a text apart after it was read, which takes
longer than to write, read and hash them. The format: eight bytes with the length of a header, JSON with type, shape and
place of each tensor, and the tensors one after the other (safetensors 0.8, `README.md`).
"""

from __future__ import annotations

import json
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from muster.sessions.weights import hashes

__all__ = ["name_of", "read", "write"]

_TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_PIECE = 16 << 20  # bytes that are read, or written, at a time
_SMALL = 1 << 20  # bytes, below which another thread takes longer to begin than to hash them
_LARGE = 8 << 20  # bytes, from which on several threads of a hash are worth their start
_THREADS = min(4, len(os.sched_getaffinity(0)))  # the other cores are for who is served meanwhile
_LINE = 64  # bytes; torch puts tensors at multiples of it, and what kernels round to may depend on that
_MEMORY = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a type in files."""
    return _NAMES[dtype]


def write(path: Path, tensors: Mapping[str, Tensor]) -> tuple[int, hashes.Digest]:
    """Write tensors into a file, which is to be flushed, and return its size and its hash.

    It is hashed while it is written, from the memory, and so is what was meant to be written; meanwhile the next tensor
    comes from its device.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # so that each lies at its own size
    with ThreadPoolExecutor(2) as beside, path.open("wb", buffering=0) as file:
        sink = _Sink(file, beside)
        sink.put(memoryview(_header(tensors, order)))
        for part in _plain([tensors[name] for name in order], beside):
            sink.put(part)
        return sink.end()


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
    digest = hashes.new(name, _THREADS if size >= _LARGE else 1)
    head = _taken(file, 8, digest)
    length = int.from_bytes(head, "little")
    if length > size - 8:
        raise ValueError("the header is longer than the file")
    placed = _placed(_listed(_taken(file, length, digest)), size - 8 - length)
    # One mapping whose pages are made at once: to fault on each of them takes longer than to read and hash it.
    room = memoryview(mmap.mmap(-1, sum(_rounded(count) for _, _, count in placed.values()) or 1, flags=_MEMORY))
    with ThreadPoolExecutor(1) as beside:
        for begin, end in _spans([count for _, _, count in placed.values()]):
            _fill(file, room[begin:end], digest, beside)
    tensors, at = {}, 0
    for key, (shape, kind, count) in placed.items():
        part = room[at : at + count]
        tensors[key] = torch.frombuffer(part, dtype=kind).view(shape) if count else torch.empty(shape, dtype=kind)
        at += _rounded(count)
    if file.read(1):
        raise ValueError("the file is longer than its header says")
    return tensors, hashes.Digest(name, digest.hexdigest())


class _Sink:
    """Bytes on their way to a file, in which small parts are gathered."""

    def __init__(self, file: RawIOBase, beside: Executor) -> None:
        self._file, self._beside, self._digest = file, beside, hashes.new()
        self._gathered = bytearray()
        self._written = self._begun = 0

    def put(self, data: memoryview) -> None:
        """Add bytes, which are not read any more when this returns."""
        if len(data) < _SMALL:
            self._gathered += data
        if len(data) >= _SMALL or len(self._gathered) >= _SMALL:
            self._release()
        if len(data) >= _SMALL:
            self._emit(data)

    def end(self) -> tuple[int, hashes.Digest]:
        """Write what is left, and return size and hash."""
        self._release()
        return self._written, hashes.Digest(self._digest.name, self._digest.hexdigest())

    def _release(self) -> None:
        gathered, self._gathered = self._gathered, bytearray()
        self._emit(memoryview(gathered))

    def _emit(self, data: memoryview) -> None:
        hashed = self._beside.submit(self._digest.update, data)
        try:
            for piece in _pieces(data):
                self._write(piece)
        finally:
            hashed.result()

    def _write(self, data: memoryview) -> None:
        while len(data):
            count = self._file.write(data) or 0
            data, self._written = data[count:], self._written + count
        if self._written - self._begun >= _PIECE:
            # Linux begins to write these pages out and does not wait. They stay in its cache, since they are not clean.
            os.posix_fadvise(self._file.fileno(), self._begun, self._written - self._begun, os.POSIX_FADV_DONTNEED)
            self._begun = self._written


def _plain(tensors: Sequence[Tensor], beside: Executor) -> Iterator[memoryview]:
    """Yield the bytes of tensors; one that is on a device is copied while the one before it is used."""
    coming: deque[Callable[[], memoryview]] = deque()
    for each in tensors:
        on_host = each.device.type == "cpu"
        coming.append(partial(_bytes, each) if on_host else beside.submit(_bytes, each).result)
        if len(coming) > 1:
            yield coming.popleft()()
    for last in coming:
        yield last()


def _spans(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return where in memory the bytes of tensors go that lie one after the other there as in the file."""
    spans: list[tuple[int, int]] = []
    at = 0
    for count in counts:
        if spans and spans[-1][1] == at:
            spans[-1] = spans[-1][0], at + count
        else:
            spans.append((at, at + count))
        at += _rounded(count)
    return spans


def _fill(file: BinaryIO, room: memoryview, digest: Any, beside: Executor) -> None:
    """Read as many bytes, each piece of which is hashed while the next one is read. Raises `ValueError` for fewer."""
    hashed: Future[Any] = Future()
    hashed.set_result(None)
    for piece in _pieces(room):
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]  # of a file of bytes
            raise ValueError("the file is shorter than its header says")
        hashed.result()
        if len(piece) < _SMALL:
            digest.update(piece)
        else:
            hashed = beside.submit(digest.update, piece)
    hashed.result()


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
    return memoryview(tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy())


def _taken(file: BinaryIO, size: int, digest: Any) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise ValueError("the file is shorter than its header")
    digest.update(data)
    return data
