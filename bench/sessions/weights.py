"""From weights to samples: publish an adapter, verify and load it, against writing and reading as many plain bytes.

Everything is taken in turns within one run; each write is synced, as those of weights are. Reading is done twice: what
was just written, which the kernel still has in memory, and from the storage, after the kernel was asked to forget it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bench import figures
from muster.sessions.weights import tensors

__all__ = ["run"]

_ROUNDS = 9
_SIZES = (1, 16, 128, 1024)  # MiB
_TENSORS = 512  # about those of an adapter of a model with 36 layers


def run() -> None:
    """Print the share of the storage's own speed, for some sizes of adapters."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for size in _SIZES:
            _measure(Path(folder), size)


def _measure(folder: Path, size: int) -> None:
    values = {f"layer.{at}": torch.randn((size << 18) // _TENSORS) for at in range(_TENSORS)}
    data = b"".join(each.numpy().tobytes() for each in values.values())
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: _write(folder / "plain", data),
        "publish": lambda: tensors.publish(folder / "weights", {"adapter.safetensors": values}, {}, {}),
        "read": (folder / "plain").read_bytes,
        "load": lambda: tensors.read(folder / "weights", "adapter.safetensors"),
    }
    files = {"read": folder / "plain", "load": folder / "weights" / "adapter.safetensors"}
    calls |= {f"{name} from storage": calls[name] for name in files}
    clocks = {"clock": time.perf_counter, "processor": time.process_time}
    taken: dict[str, dict[str, list[float]]] = {clock: {name: [] for name in calls} for clock in clocks}
    for turn in range(_ROUNDS + 1):
        for name, call in calls.items():
            if name.endswith("storage"):
                _forget(files[name.split()[0]])
            began = {clock: now() for clock, now in clocks.items()}
            kept = call()
            ended = {clock: now() for clock, now in clocks.items()}
            del kept
            for clock in clocks if turn else ():
                taken[clock][name].append(ended[clock] - began[clock])
    for clock, each in taken.items():
        _tell(size, clock, each)


def _tell(size: int, clock: str, taken: dict[str, list[float]]) -> None:
    print(f"{size} MiB in {_TENSORS} tensors, by the {clock}")
    for plain, ours in (("write", "publish"), ("read", "load"), ("read from storage", "load from storage")):
        shares = [p / o * 100 for p, o in zip(taken[plain], taken[ours], strict=True)]
        speed = figures.rounds([size / each for each in taken[ours]])
        print(f"  {ours}: {figures.rounds(shares)} % of the speed of a plain {plain} ({speed} MiB/s)")
    for where in ("", " from storage"):
        turns = zip(*(taken[name] for name in ("write", f"read{where}", "publish", f"load{where}")), strict=True)
        both = [(write + read) / (publish + load) * 100 for write, read, publish, load in turns]
        print(f"  from publish to loaded{where}: {figures.rounds(both)} %")


def _forget(path: Path) -> None:
    """Have the kernel drop its copy of a file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
