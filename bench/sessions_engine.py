"""What the engines of sessions cost: run it with the environment of sessions, `python -m bench.sessions_engine`.

One process and one thread. Everything is measured in turns within one run, and what is printed are ratios and the
medians they are of, because the machine may be busy.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from muster.sessions.demo import tiny
from muster.sessions.engines.sampler import TransformersSampler
from muster.sessions.engines.trainer import TorchTrainer
from muster.sessions.seam import Datum, Lora, Sampling, Step

_MODELS = 8
_TURNS = 7


def _step(rows: int, length: int) -> Step:
    rng = np.random.default_rng(0)
    tokens = rng.integers(4, 100, (rows, length))
    ones = np.ones(length, np.float32)
    inputs = {"target_tokens": tokens[0], "logprobs": -4 * ones, "advantages": ones}
    return Step("importance_sampling", {}, [Datum(each, inputs) for each in tokens])


def _medians(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median of processor milliseconds for each call, all taken in turns after one that is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(_TURNS + 1):
        for name, call in calls.items():
            before = time.process_time()
            call()
            if turn:
                taken[name].append((time.process_time() - before) * 1e3)
    return {name: statistics.median(each) for name, each in taken.items()}


def _told(title: str, medians: dict[str, float]) -> None:
    first, *rest = medians
    print(title)
    print(f"  {first}: {medians[first]:.1f} ms")
    for name in rest:
        ratio = medians[first] / medians[name]
        print(f"  {name}: {medians[name]:.1f} ms, {ratio:.2f} times as fast")


def _models(trainer: TorchTrainer, rows: int, length: int) -> None:
    step = _step(rows, length)
    names = [f"model-{number}" for number in range(_MODELS)]
    for name in names:
        trainer.create(name, Lora(rank=16))
    _told(
        f"{_MODELS} models on one base, {rows} x {length} tokens each",
        _medians(
            {
                "one after the other": lambda: [trainer.step(name, step) for name in names],
                "in shared passes": lambda: trainer.steps([(name, step) for name in names]),
            }
        ),
    )


def _batch(trainer: TorchTrainer, rows: int, length: int) -> None:
    step = _step(rows, length)
    trainer.create("m", Lora(rank=16))
    alone: Sequence[Step] = [Step(step.loss, {}, [each]) for each in step.data]
    calls = {
        "one by one": lambda: [trainer.step("m", each) for each in alone],
        "batched": lambda: trainer.step("m", step),
    }
    _told(f"a step of {rows} x {length} tokens", _medians(calls))


def _sampling(sampler: TransformersSampler, rows: int, length: int) -> None:
    prompts = np.random.default_rng(0).integers(4, 100, (rows, 16))
    requests = [Sampling(None, each, max_tokens=length, seed=1, stop=[]) for each in prompts]
    ids = torch.from_numpy(prompts)
    model = sampler._base.model  # noqa: SLF001 - the same model, by the library's own loop

    def generate() -> object:
        with torch.inference_mode():
            return model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                min_new_tokens=length,
                max_new_tokens=length,
                pad_token_id=0,
            )

    calls = {
        "one by one": lambda: [sampler.sample([each]) for each in requests],
        "generate of transformers": generate,
        "batched": lambda: sampler.sample(requests),
    }
    _told(f"sampling {rows} x {length} tokens", _medians(calls))


def main() -> None:
    """Measure, and print."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        base = tiny.make(Path(folder) / "tiny")
        trainer = TorchTrainer(base)
        _batch(trainer, 16, 64)
        for rows, length in ((2, 16), (4, 32), (16, 64)):
            _models(trainer, rows, length)
        _sampling(TransformersSampler(base), 16, 32)


if __name__ == "__main__":
    main()
