"""What a step costs through HTTP, against the same step asked of the engine directly, in turns within one run.

By the clock, and as processor time of the client, the Gateway and its engines, which says more on a busy machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tinker
import torch
from tinker import types

from bench import figures
from bench.sessions.served import Served, engines, made, serve, spent
from muster.sessions.engines.trainer import TorchTrainer
from muster.sessions.seam import Adam, Datum, Lora, Step

__all__ = ["run"]

_ROUNDS = 9
_SHAPES = ((16, 32), (64, 64))
_HIDDEN = (64, 256)


def run() -> None:
    """Print the ratio of the step's times, for a small batch and for one of 64 sequences, and two sizes of models."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    for hidden in _HIDDEN:
        print(f"a model of hidden size {hidden}")
        _run(hidden)


def _run(hidden: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = made(Path(folder), hidden=hidden)
        trainer = TorchTrainer(base)
        trainer.create("m", Lora(rank=16, seed=1))
        with (
            serve(Path(folder) / "state", base) as gateway,
            tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as service,
        ):
            client = service.create_lora_training_client(str(base), rank=16, seed=1).result()
            for rows, length in _SHAPES:
                _measure(trainer, gateway, client, np.random.default_rng(0).integers(4, 100, (rows, length + 1)))


def _measure(trainer: TorchTrainer, gateway: Served, client: tinker.TrainingClient, tokens: np.ndarray) -> None:
    ones, adam = np.ones(tokens.shape[1] - 1, np.float32), Adam(learning_rate=1e-4)
    step = Step("cross_entropy", {}, [Datum(t[:-1], {"target_tokens": t[1:], "weights": ones}) for t in tokens])
    data = [
        types.Datum(types.ModelInput.from_ints(t[:-1].tolist()), {"target_tokens": t[1:], "weights": ones})
        for t in tokens
    ]

    def direct() -> None:
        trainer.step("m", step)
        trainer.optim("m", adam)

    def through() -> None:
        passed = client.forward_backward(data, "cross_entropy")
        stepped = client.optim_step(types.AdamParams(learning_rate=1e-4))
        passed.result()
        stepped.result()

    for call in (direct, through):  # not counted
        call()
    before, own = _processors(gateway), 0.0
    pairs = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        alone = _seconds(direct)
        own += time.process_time() - began
        pairs.append((alone, _seconds(through)))
    client_, served, engine_ = (b - a for a, b in zip(before, _processors(gateway), strict=True))
    ratios = figures.rounds([t / d for d, t in pairs])
    engine, http = (figures.rounds([each[at] * 1e3 for each in pairs]) for at in (0, 1))
    told = f"direct {engine} ms, HTTP {http} ms"
    print(f"a step of {tokens.shape[0]} x {tokens.shape[1] - 1} tokens: {ratios} times the engine's own ({told})")
    shares = [each / _ROUNDS * 1e3 for each in (own, engine_, served, client_ - own)]
    times = (engine_ + served + client_ - own) / own
    print("  processor ms: direct {:.0f}; engines {:.0f}, Gateway {:.0f}, client {:.0f}".format(*shares), end="")
    print(f", so {times:.2f} times with the client and {(engine_ + served) / own:.2f} times without")


def _processors(gateway: Served) -> tuple[float, float, float]:
    """Return the processor seconds of this process, the Gateway and its engines."""
    return time.process_time(), spent(gateway.pid), sum(map(spent, engines(gateway.pid)))


def _seconds(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
