"""What a step costs through HTTP, against the same step asked of the engine directly, in turns within one run."""

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
from bench.sessions.served import made, serve
from sessions.engines.trainer import TorchTrainer
from sessions.seam import Adam, Datum, Lora, Step

__all__ = ["run"]

_ROUNDS = 9
_SHAPES = ((16, 32), (64, 64))


def run() -> None:
    """Print the ratio of the step's times, for a small batch and for one of 64 sequences."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        base = made(Path(folder))
        trainer = TorchTrainer(base)
        trainer.create("m", Lora(rank=16, seed=1))
        with (
            serve(Path(folder) / "state", base) as gateway,
            tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as service,
        ):
            client = service.create_lora_training_client(str(base), rank=16, seed=1).result()
            for rows, length in _SHAPES:
                _measure(trainer, client, np.random.default_rng(0).integers(4, 100, (rows, length + 1)))


def _measure(trainer: TorchTrainer, client: tinker.TrainingClient, tokens: np.ndarray) -> None:
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

    pairs = [(_seconds(direct), _seconds(through)) for _ in range(_ROUNDS + 1)][1:]
    ratios = figures.rounds([t / d for d, t in pairs])
    engine, http = (figures.rounds([each[at] * 1e3 for each in pairs]) for at in (0, 1))
    told = f"direct {engine} ms, HTTP {http} ms"
    print(f"a step of {tokens.shape[0]} x {tokens.shape[1] - 1} tokens: {ratios} times the engine's own ({told})")


def _seconds(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
