"""From a version that is published to one that is served, by a real server, and how long it is paused meanwhile.

The storage's own time for as many bytes, written, flushed and renamed, and read back, is taken in turns within the run.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import peft
import torch

from bench import figures
from bench.weights import models, samplers, transport
from muster_weights.adapters import packed
from muster_weights.trainer.adapters import AdapterSync
from muster_weights.trainer.servers import Server
from muster_weights.trainer.settings import Settings
from muster_weights.trainer.syncs import Sync
from muster_weights.trainer.tensors import named

__all__ = ["run"]

_ROUNDS = 7
_SIZES = (5, 96)
_HELD, _RANK = 6, 16


class _Watched(Server):
    """A sampler whose last pause is timed."""

    pause = 0.0

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """As `Server.paused`."""
        began = time.perf_counter()
        with super().paused():
            yield
        self.pause = time.perf_counter() - began


def run() -> None:
    """Print what a sync takes, for adapters and for whole models of some sizes."""
    torch.set_num_threads(1)
    for size in _SIZES:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            model = models.made(folder / "model", size)
            _whole(folder, model, size)
            _adapter(folder, model, size)


def _whole(folder: Path, model: Any, size: int) -> None:
    known, log = samplers.environment(folder), folder / "whole.log"
    with samplers.serving(folder / "model", known, log) as (url, _):
        sync = Sync(url, Settings(folder / "shared"), _refused)
        sync.server = watched = _Watched(url, sync.settings.deadline)
        sync.open()
        data = _bytes(model.state_dict())
        _told(folder, f"{size} MiB, whole", data, lambda _: sync.send(named(model.named_parameters())), watched)
        sync.close()


def _adapter(folder: Path, model: Any, size: int) -> None:
    config = peft.LoraConfig(r=_RANK, lora_alpha=2 * _RANK, target_modules="all-linear", task_type="CAUSAL_LM")
    tuned = peft.get_peft_model(model, config)
    flags = ("--enable-lora", "--max-loras", str(_HELD), "--max-lora-rank", str(_RANK))
    with samplers.serving(folder / "model", samplers.environment(folder), folder / "adapter.log", *flags) as (url, _):
        sync = AdapterSync(url, Settings(folder / "shared"), _refused, _HELD)
        sync.server = watched = _Watched(url, sync.settings.deadline)
        sync.open()
        state = peft.get_peft_model_state_dict(tuned)
        told = tuned.peft_config["default"].to_dict()
        _told(
            folder,
            f"{size} MiB, adapter",
            _bytes(state),
            lambda number: sync.publish(packed(told, named(state.items())), number),
            watched,
        )
        sync.close()


def _told(folder: Path, name: str, data: list[memoryview], send: Callable[[int], None], server: _Watched) -> None:
    """Send versions 1, 2, ... and print the figures of all but the first."""
    rounds: list[tuple[float, float, float]] = []
    for number in range(1, _ROUNDS + 2):
        own = transport.own(folder / "plain", data)
        began = time.perf_counter()
        send(number)
        rounds.append((own * 1000, (time.perf_counter() - began) * 1000, server.pause * 1000))
    own_ms, served, paused = (figures.rounds(each) for each in zip(*rounds[1:], strict=True))
    size = sum(map(len, data)) / (1 << 20)
    told = f"{name}, {size:.1f} MiB to send"
    print(f"{told}: served after {served} ms, paused {paused} ms; storage alone {own_ms} ms", flush=True)


def _bytes(state: dict[str, torch.Tensor]) -> list[memoryview]:
    return [memoryview(each.detach().contiguous().view(-1).view(torch.uint8).numpy()) for each in state.values()]


def _refused(reason: str) -> NoReturn:
    raise RuntimeError(reason)
