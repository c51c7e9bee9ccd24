"""From a trainer's tensors to bytes that a sampler may load, against the storage's own speed for as many bytes.

Ours is a version published (written, hashed, flushed, renamed) and verified (opened, mapped, hashed); the storage's own
is a file written, flushed and renamed, and read. All are taken in turns within one run, which of the two is first
changes with each turn, and each turn has a ratio of its own. What is read is in the page cache, as on the node that
wrote it; and then again dropped from there, as far as the kernel does that for anybody who asks, so that it comes from
the disk as on another node. BENCH_FOLDER says on which storage, and BENCH_MIB how large.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bench import figures
from muster_weights import folders, names, readings
from muster_weights.trainer.tensors import named

__all__ = ["own", "run"]

_ROUNDS = 12
_SIZES = "5 96 1024"  # MiB
_TENSORS = 64
_RUN = "run-bench"
_Tensors = list[tuple[str, torch.Tensor]]


def run() -> None:
    """Print the share of the storage's own speed, for some sizes of models."""
    torch.set_num_threads(1)
    for size in map(int, os.environ.get("BENCH_MIB", _SIZES).split()):
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
            _measure(Path(folder), size)


def own(path: Path, data: list[memoryview]) -> float:
    """Return the seconds in which the storage takes bytes durably and gives them back, in a file that then goes."""
    taken = _timed(lambda: _write(path, data))
    _dropped(path)
    taken += _timed(lambda: _read(path))
    path.unlink()
    return taken


def _measure(folder: Path, size: int) -> None:
    count = (size << 20) // 4 // _TENSORS
    tensors = [(f"model.layers.{at}.weight", torch.randn(count)) for at in range(_TENSORS)]
    data = [memoryview(tensor.view(torch.uint8).numpy()) for _, tensor in tensors]
    rounds: list[dict[str, float]] = []
    for turn in range(_ROUNDS + 1):
        taken = _turn(folder, turn + 1, tensors, data)
        if turn:
            rounds.append(taken)
    for where, read, verify in (("same node", "warm read", "warm verify"), ("another", "read", "verify")):
        both = [(each["write"] + each[read]) / (each["publish"] + each[verify]) * 100 for each in rounds]
        print(f"{size:5} MiB, {where}: transport at {figures.rounds(both)} % of the storage's own speed")
    for name in ("write", "publish", "read", "verify", "warm read", "warm verify", "load"):
        taken = figures.rounds([each[name] * 1000 for each in rounds])
        print(f"           {name}: {taken} ms, {size / 1024 / taken.median * 1000:.2f} GiB/s")


def _turn(
    folder: Path, number: int, tensors: list[tuple[str, torch.Tensor]], data: list[memoryview]
) -> dict[str, float]:
    plain, taken = folder / "plain", {}
    told: list[names.Told] = []
    verified: list[readings.Verified] = []

    def verify() -> None:
        verified.append(readings.verify(folder, told[0]))

    both: list[tuple[str, Callable[[], object]]] = [
        ("write", lambda: _write(plain, data)),
        ("publish", lambda: told.append(folders.publish(folder, _RUN, number, named(tensors)))),
    ]
    for name, call in _turned(both, number):
        taken[name] = _timed(call)
    both = [("read", lambda: _read(plain)), ("verify", verify)]
    for name, call in _turned(both, number):
        taken[f"warm {name}"] = _timed(call)
    verified.pop().close()
    _dropped(plain)
    _dropped(folder / _RUN / names.folder_of(number) / names.DATA)
    for name, call in _turned(both, number):
        taken[name] = _timed(call)
    taken["load"] = _timed(lambda: _loaded(verified[0], tensors))
    verified[0].close()
    shutil.rmtree(folder / _RUN)
    plain.unlink()
    return taken


def _turned(both: list[tuple[str, Callable[[], object]]], number: int) -> list[tuple[str, Callable[[], object]]]:
    return both[:: -1 if number % 2 else 1]


def _loaded(verified: readings.Verified, tensors: _Tensors) -> None:
    """Copy what was verified into tensors that are there, as the load in the pause does at least."""
    for entry, (_, tensor) in zip(verified.manifest.tensors, tensors, strict=True):
        tensor.copy_(torch.frombuffer(verified.data, dtype=torch.float32, count=tensor.numel(), offset=entry.offset))


def _write(path: Path, data: list[memoryview]) -> None:
    partial = path.with_suffix(".partial")
    with partial.open("wb", buffering=0) as file:
        for each in data:
            left = each
            while len(left):
                left = left[file.write(left) :]
        os.fsync(file.fileno())
    partial.rename(path)
    _flushed(path.parent)


def _read(path: Path) -> None:
    buffer = memoryview(bytearray(16 << 20))
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _dropped(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def _flushed(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
