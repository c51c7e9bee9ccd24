"""N models on one engine against N engines with a model each: run it with the environment of sessions.

`python -m bench.sessions_shared [--models 8] [--rounds 5] [--snapshots]`. All engines run at the same time on one core;
each model asks for a step, then for an optimizer step, and so on, as a loop of its own. The two sides take turns, and
what counts are processor seconds of the engines' processes, because the machine may be busy. What is printed is how
many times the throughput of N engines one engine has, as median and spread over rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import orjson

from bench.figures import rounds
from muster.sessions.demo import tiny
from muster.sessions.metrics import Metrics
from muster.sessions.platforms.processes import Process
from muster.sessions.wire.schema import messages

_TRAINER = "muster.sessions.engines.trainer:TorchTrainer"
_SIZES = ((1, 16), (4, 32), (8, 32), (8, 64), (16, 64))
_STEPS = 4
_LORA = {"rank": 16, "train_mlp": True, "train_attn": True, "train_unembed": True}


def _body(model: str, rows: int, length: int) -> bytes:
    rng = np.random.default_rng(0)
    request = messages.ForwardBackwardRequest(model_id=model, seq_id=1, loss_fn="importance_sampling")
    given = {"logprobs": np.full(length, -4, "<f4"), "advantages": np.ones(length, "<f4")}
    for tokens in rng.integers(4, 100, (rows, length)):
        datum = request.data.add()
        datum.model_input.add().encoded_text.tokens = tokens.astype("<i4").tobytes()
        arrays = {"target_tokens": (tokens.astype("<i8"), messages.DTYPE_INT64)}
        arrays |= {name: (each, messages.DTYPE_FLOAT32) for name, each in given.items()}
        for name, (each, kind) in arrays.items():
            datum.loss_fn_inputs[name].CopyFrom(messages.Tensor(dtype=kind, shape=[length], dense=each.tobytes()))
    return bytes(request.SerializeToString())


class _Side:
    """Models on their engines."""

    def __init__(self, folder: Path, engines: Sequence[Process], snapshots: bool) -> None:
        self._folder, self._engines, self._snapshots = folder, engines, snapshots
        self._seq = 0

    async def create(self, models: int) -> None:
        for number in range(models):
            body = orjson.dumps({**_LORA, "seed": number})
            await self._of(number).engine.train(f"m{number}", 0, "create", body)

    async def run(self, models: int, rows: int, length: int) -> float:
        """Return the processor seconds of a loop of a few steps of all models."""
        before = self._seconds()
        await asyncio.gather(*(self._loop(number, _body("m", rows, length)) for number in range(models)))
        self._seq += 2 * _STEPS
        return self._seconds() - before

    async def _loop(self, number: int, body: bytes) -> None:
        engine, name = self._of(number).engine, f"m{number}"
        for step in range(_STEPS):
            await engine.train(name, self._seq + 2 * step + 1, "step", body)
            await engine.train(name, self._seq + 2 * step + 2, "optim", b'{"learning_rate":1e-5}')
            if self._snapshots:
                await engine.snapshot(name, self._folder / name)

    def _of(self, number: int) -> Process:
        return self._engines[number % len(self._engines)]

    def _seconds(self) -> float:
        return sum(_seconds(each.pid or 0) for each in self._engines)


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(engines: Sequence[Process]) -> float:
    pages = sum(int(Path(f"/proc/{each.pid}/statm").read_text().split()[1]) for each in engines)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def _started(stack: AsyncExitStack, folder: Path, base: Path, count: int) -> list[Process]:
    arguments = ["--base", str(base), "--trainer", _TRAINER]
    engines = [Process("trainer", folder / str(number), arguments, Metrics()) for number in range(count)]
    for each in engines:
        await each.start()
        stack.push_async_callback(each.close)
        await each.ready()
    return engines


async def _measured(args: argparse.Namespace, folder: Path) -> None:
    base = tiny.make(folder / "tiny", hidden=args.hidden)
    async with AsyncExitStack() as stack:
        sides = []
        for name, count in (("one", 1), ("many", args.models)):
            engines = await _started(stack, folder / name, base, count)
            sides.append(_Side(folder / name, engines, args.snapshots))
            await sides[-1].create(args.models)
            print(f"{count} engines: {_resident(engines):.0f} MiB resident")
        one, many = sides
        for rows, length in _SIZES:
            for side in sides:
                await side.run(args.models, rows, length)  # not counted
            ratios = []
            for _ in range(args.rounds):
                alone = await many.run(args.models, rows, length)
                ratios.append(alone / await one.run(args.models, rows, length))
            print(f"{rows} x {length} tokens for each of {args.models} models: {rounds(ratios)} times", flush=True)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--snapshots", action="store_true", help="write weights after each step, as a Gateway has it")
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measured(args, Path(folder)))


if __name__ == "__main__":
    main()
