"""From weights to samples: publish an adapter, verify and load it, against writing and reading as many plain bytes.

Everything is taken in turns within one run; each write is synced, as those of weights are. Files were just written, so
what is read comes from memory in both.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bench import figures
from sessions.weights import tensors

__all__ = ["run"]

_ROUNDS = 9
_SIZES = (1, 16, 128)  # MiB


def run() -> None:
    """Print the share of the storage's own speed, for some sizes of adapters."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for size in _SIZES:
            _measure(Path(folder), size)


def _measure(folder: Path, size: int) -> None:
    values = {f"layer.{at}": torch.randn(size << 13) for at in range(32)}
    data = b"".join(each.numpy().tobytes() for each in values.values())
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: _write(folder / "plain", data),
        "publish": lambda: tensors.publish(folder / "weights", {"adapter.safetensors": values}, {}, {}),
        "read": (folder / "plain").read_bytes,
        "load": lambda: tensors.read(folder / "weights", "adapter.safetensors"),
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(_ROUNDS + 1):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            if turn:
                taken[name].append(time.perf_counter() - began)
    for plain, ours in (("write", "publish"), ("read", "load")):
        shares = [p / o * 100 for p, o in zip(taken[plain], taken[ours], strict=True)]
        speed = figures.rounds([size / each for each in taken[ours]])
        print(f"{size:4} MiB: {ours} at {figures.rounds(shares)} % of the speed of a plain {plain} ({speed} MiB/s)")
    turns = zip(*(taken[name] for name in ("write", "read", "publish", "load")), strict=True)
    both = [(write + read) / (publish + load) * 100 for write, read, publish, load in turns]
    print(f"{size:4} MiB: from publish to loaded at {figures.rounds(both)} %")


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
