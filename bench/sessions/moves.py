"""What it takes an engine to give its GPU up and to come back, and its weights to reach a sampler there.

It needs a GPU. Models are random, of the sizes of Qwen3 (0.6, 4 and 8 billion parameters, bfloat16); BENCH_SIZES and
BENCH_FOLDER say which of them, and on which storage weights are; BENCH_BASES, where the models are. The first time that
an engine leaves is told by itself: it copies what never changes, into host memory that is pinned then.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bench import figures
from muster.sessions.demo import tiny
from muster.sessions.engines.sampler import TransformersSampler
from muster.sessions.engines.trainer import TorchTrainer
from muster.sessions.engines.whole import MODEL, WholeSampler, WholeTrainer
from muster.sessions.seam import Adam, Datum, Lora, Sampling, Step

__all__ = ["run"]

_ROUNDS = 4
_SHAPES = {  # layers, hidden, intermediate, heads, heads of keys and values, vocabulary
    "0.6": (28, 1024, 3072, 16, 8, 151_936),
    "4": (36, 2560, 9728, 32, 8, 151_936),
    "8": (36, 4096, 12288, 32, 8, 151_936),
}
_WHOLE = ("0.6", "4")
_LORA, _ALL = Lora(rank=32, seed=1), Lora(rank=0, seed=1)
_ROWS, _LENGTH, _ANSWERS, _TOKENS = 16, 512, 64, 32


def run() -> None:
    """Print seconds, and bytes in a second, for each size and engine."""
    if not torch.cuda.is_available():
        raise SystemExit("bench.sessions moves: PyTorch sees no GPU here")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for size in os.environ.get("BENCH_SIZES", " ".join(_SHAPES)).split():
        with (
            tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder,
            tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_BASES")) as bases,
        ):
            base = _made(Path(bases) / "base", size)
            print(f"a model of {size} billion parameters, {_size(base) / 1e9:.2f} GB", flush=True)
            _adapters(base, Path(folder))
            if size in _WHOLE:
                _whole(base, Path(folder))


def _adapters(base: Path, folder: Path) -> None:
    trainer = TorchTrainer(base, device="cuda", dtype=torch.bfloat16, budget=8192)
    sampler = TransformersSampler(base, device="cuda", dtype=torch.bfloat16)
    trainer.create("m", _LORA)
    _tell("a step of an adapter", _timed(lambda: _step(trainer), _ROUNDS))
    trainer.away()
    saved, loaded = [], []
    for number in range(_ROUNDS):
        trainer.back()
        _step(trainer)
        saved += _timed(lambda at=number: trainer.save("m", folder / f"adapter-{at}", optimizer=False))
        loaded += _timed(lambda at=number: sampler.load(f"m{at}", folder / f"adapter-{at}"))
        trainer.away()
    written = _size(folder / "adapter-0")
    _tell("the adapter is saved", saved, written)
    _tell("and loaded by the sampler", loaded, written)
    _tell(f"{_ANSWERS} answers of {_TOKENS} tokens", _timed(lambda: _sample(sampler, "m0"), 2))
    trainer.back()
    _moved("trainer of adapters", trainer, lambda: _step(trainer))
    trainer.away()
    _moved("sampler of adapters", sampler)
    sampler.away()


def _whole(base: Path, folder: Path) -> None:
    trainer = WholeTrainer(base, device="cuda", dtype=torch.bfloat16, budget=8192)
    trainer.create("m", _ALL)
    _tell("a step of all weights", _timed(lambda: _step(trainer), _ROUNDS))
    _moved("trainer of all weights", trainer, lambda: _step(trainer))
    sampler = WholeSampler(base, device="cuda", dtype=torch.bfloat16)
    written = _size(base)
    saved = _timed(lambda: trainer.save("m", folder / "whole", optimizer=False), 3)
    _tell("all weights are saved", saved, written)
    plain = folder / "whole" / MODEL
    _tell("as many bytes are read", _timed(lambda: _read(plain), 3), written)
    _tell("and written", _timed(lambda: _write(folder / "plain", plain), 3), written)
    _tell("and taken by the sampler", list(_taken(sampler, folder / "whole")), written)
    trainer.away()
    sampler.away()


def _taken(sampler: WholeSampler, folder: Path) -> Iterator[float]:
    """Yield what it takes to load weights and to answer one token from them, less that of another token."""
    request = [Sampling("m", np.arange(5, 13), max_tokens=1, seed=1)]
    for _ in range(3):
        loaded = _timed(lambda: (sampler.load("m", folder), sampler.sample(request)))[0]
        yield loaded - _timed(lambda: sampler.sample(request))[0]


def _moved(name: str, engine: Any, work: Callable[[], object] = lambda: None) -> None:
    taken: dict[str, list[float]] = {"leaves": [], "comes back": []}
    moved = []
    for _ in range(_ROUNDS + 1):
        work()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        taken["leaves"] += _timed(engine.away)
        moved.append(before - torch.cuda.memory_allocated())
        taken["comes back"] += _timed(engine.back)
    for what, seconds in taken.items():
        _tell(f"{name} {what}, the first time", seconds[:1], moved[0])
        _tell(f"{name} {what}", seconds[1:], moved[-1])


def _step(trainer: TorchTrainer) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(4, 100, (_ROWS, _LENGTH + 1))
    ones = np.ones(_LENGTH, np.float32)
    data = [Datum(each[:-1], {"target_tokens": each[1:], "weights": ones}) for each in rows]
    trainer.step("m", Step("cross_entropy", {}, data))
    trainer.optim("m", Adam(learning_rate=1e-5))


def _sample(sampler: TransformersSampler, weights: str) -> None:
    sampler.sample([Sampling(weights, np.arange(5, 37), count=_ANSWERS, max_tokens=_TOKENS, seed=1, stop=[])])


def _timed(call: Callable[[], object], times: int = 1) -> list[float]:
    out = []
    for _ in range(times):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        out.append(time.perf_counter() - began)
    return out


def _tell(what: str, seconds: Sequence[float], size: int = 0) -> None:
    taken = figures.rounds(seconds)
    speed = f", {size / 1e9:.2f} GB at {size / 1e9 / taken.median:.2f} GB/s" if size else ""
    print(f"  {what}: {taken} s{speed}", flush=True)


def _read(path: Path) -> None:
    buffer = memoryview(bytearray(16 << 20))
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _write(path: Path, source: Path) -> None:
    """Write what another file has, whose reading is cheap beside it, and have it on the storage."""
    with source.open("rb") as given, path.open("wb", buffering=0) as file:
        shutil.copyfileobj(given, file, 16 << 20)
        os.fsync(file.fileno())


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())


def _made(folder: Path, size: str) -> Path:
    layers, hidden, inner, heads, pairs, vocabulary = _SHAPES[size]
    tiny.make(folder)  # for its tokenizer
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=pairs,
        head_dim=128,
        max_position_embeddings=4096,
        tie_word_embeddings=size != "8",
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder)
    del model
    gc.collect()
    torch.cuda.empty_cache()
    return folder
