"""Engines of a model that is one table, in NumPy: exact, and started in a tenth of a second.

They stand in for torch where a test is about the Gateway: order, repeats, ends of processes. What they compute is real,
so a gradient that is applied twice, or lost, gives other weights.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from muster.sessions.seam import Outputs, Refused, Sampled, Sequence_

SIZE = 32


def _softened(table, tokens):
    rows = table[tokens]
    rows = rows - rows.max(axis=-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True))


class Trainer:
    def __init__(self, _base: Path) -> None:
        self._models = {}

    def create(self, model, lora):
        table = np.random.default_rng(lora.seed).normal(size=(SIZE, SIZE)) * 0.1
        self._models[model] = {
            "table": table,
            "grad": np.zeros_like(table),
            "m": np.zeros_like(table),
            "steps": np.zeros(1),
        }

    def step(self, model, step):
        if step.loss != "cross_entropy":
            raise Refused(f"loss_fn: {step.loss}: this engine does cross_entropy only")
        held, logprobs, loss = self._models[model], [], 0.0
        for datum in step.data:
            all_ = _softened(held["table"], datum.tokens)
            places, targets, weights = (
                np.arange(len(datum.tokens)),
                datum.inputs["target_tokens"],
                datum.inputs["weights"],
            )
            logprobs.append(all_[places, targets].astype(np.float32))
            loss -= float((weights * all_[places, targets]).sum())
            if not step.forward_only:
                np.add.at(held["grad"], datum.tokens, np.exp(all_) * weights[:, None])
                np.add.at(held["grad"], (datum.tokens, targets), -weights)
        return Outputs(logprobs, {"loss:sum": loss})

    def optim(self, model, params):
        held = self._models[model]
        norm = float(np.sqrt((held["grad"] ** 2).sum()))
        held["m"] = params.beta1 * held["m"] + held["grad"]
        held["table"] = held["table"] - params.learning_rate * held["m"]
        held["grad"], held["steps"] = np.zeros_like(held["grad"]), held["steps"] + 1
        return {"grad_norm:mean": norm, "steps:sum": float(held["steps"][0])}

    def save(self, model, folder, *, optimizer):
        held = self._models[model]
        kept = {"table": held["table"]} | ({"m": held["m"], "steps": held["steps"]} if optimizer else {})
        beside = folder.with_name(folder.name + ".part")
        beside.mkdir(parents=True, exist_ok=True)
        np.savez(beside / "weights.npz", **kept)
        if folder.exists():
            (folder / "weights.npz").unlink()
            folder.rmdir()
        beside.rename(folder)

    def load(self, model, folder, *, optimizer):
        with np.load(folder / "weights.npz") as kept:
            held = dict(kept)
        zero = np.zeros((SIZE, SIZE))
        if optimizer and "m" not in held:
            raise Refused("path: these weights have no optimizer; load them without it")
        state = {"m": held["m"], "steps": held["steps"]} if optimizer else {"m": zero, "steps": np.zeros(1)}
        self._models[model] = {"table": held["table"], "grad": zero.copy(), **state}

    def unload(self, model):
        self._models.pop(model, None)


class Sharing(Trainer):
    """As torch does, in steps of several models the gradient is another in its last digits, which a layout tells.

    While a file `gate` lies in the folder of the base, no step goes on; a file `held` tells that one is there.
    """

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self._gate = base / "gate"

    def step(self, model, step):
        while self._gate.exists():
            self._gate.with_name("held").touch()
            time.sleep(0.01)
        return super().step(model, step)

    def steps(self, work):
        return [(self.again(model, step, str(len(work))), str(len(work))) for model, step in work]

    def again(self, model, step, layout):
        data = [replace(each, inputs=dict(each.inputs)) for each in step.data]
        for each in data:
            each.inputs["weights"] = each.inputs["weights"] * (1 + int(layout) / 1000)
        outputs = super().step(model, replace(step, data=data))
        return Outputs(outputs.logprobs, {**outputs.metrics, "shared:sum": float(layout)})


class Sampler:
    def __init__(self, _base: Path) -> None:
        self._tables = {None: np.zeros((SIZE, SIZE))}

    def load(self, weights, folder):
        with np.load(folder / "weights.npz") as kept:
            self._tables[weights] = kept["table"]

    def unload(self, weights):
        self._tables.pop(weights, None)

    def sample(self, requests):
        return [self._one(each) for each in requests]

    def _one(self, request):
        table = self._tables[request.weights]
        chance = np.random.default_rng(request.seed)
        sequences = []
        for _ in range(request.count):
            last, tokens, logprobs = request.prompt[-1], [], []
            for _ in range(request.max_tokens or 8):
                all_ = _softened(table, last)
                last = int(chance.choice(SIZE, p=np.exp(all_) / np.exp(all_).sum()))
                tokens.append(last)
                logprobs.append(all_[last])
            sequences.append(Sequence_(np.array(tokens, np.int64), np.array(logprobs, np.float32), "length"))
        prompt = None
        if request.prompt_logprobs:
            all_ = _softened(table, request.prompt[:-1])
            prompt = np.array([np.nan, *all_[np.arange(len(request.prompt) - 1), request.prompt[1:]]], np.float32)
            prompt[: -request.last_n if request.last_n else 0] = np.nan
        return Sampled(tuple(sequences), prompt)
