"""A trainer of many LoRA models on one base, each with its gradients and its AdamW.

The same calls in the same order from the same saved state give the same bits on a CPU: sums are taken in an order that
the calls alone decide, and nothing is drawn but by the seed of a model.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sessions.engines.adam import AdamW, checked
from sessions.engines.adapters import ALPHA, Adapter, Layers
from sessions.engines.base import Base
from sessions.engines.batches import packed, padded
from sessions.engines.seam import Adam, Datum, Lora, Outputs, Step
from sessions.losses.checks import config_of, inputs_of
from sessions.losses.formulas import loss_sum
from sessions.refusals import Refused
from sessions.weights import manifest, tensors

__all__ = ["ADAPTER", "CONFIG", "OPTIMIZER", "TorchTrainer", "adapter_of"]

ADAPTER = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
OPTIMIZER = "optimizer.safetensors"


@dataclass(slots=True)
class _Model:
    """`pending` are the gradients since the last optimizer step, in the order of names; empty for none."""

    adapter: Adapter
    optimizer: AdamW
    pending: list[Tensor] = field(default_factory=list)


class TorchTrainer:
    """A `Trainer` on torch.

    Args:
        base: folder of the base model, as `from_pretrained` reads it.
        budget: tokens of one pass, padding included; a step of more is divided.
        device: such as `cpu` or `cuda`.
        dtype: of the base; adapters and their optimizers are float32.
    """

    def __init__(
        self, base: Path, *, budget: int = 8192, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        self._base = Base(base, device=device, dtype=dtype)
        self._layers = Layers(self._base)
        self._budget = budget
        self._models: dict[str, _Model] = {}

    def create(self, model: str, lora: Lora) -> None:
        """Make a model. Without a seed its name is one, so that a repeated call gives the same bits."""
        self._models[model] = _held(self._layers.fresh(lora, _seed(model) if lora.seed is None else lora.seed))

    def step(self, model: str, step: Step) -> Outputs:
        """Add the gradient of a step. Raises `Refused`, also for gradients that overflow; nothing has changed then."""
        held = self._model(model)
        config = config_of(step.loss, step.config)
        inputs = self._inputs(step)
        with self._layers.active(held.adapter), torch.set_grad_enabled(not step.forward_only):
            logprobs, loss, gradients = self._passes(step, inputs, config, list(held.adapter.named().values()))
        if not _finite([loss, *gradients]):
            raise Refused(f"forward_backward: {step.loss} overflowed: send smaller advantages, or newer logprobs")
        held.pending = _added(held.pending, gradients)
        return Outputs(logprobs, {"loss:sum": float(loss)})

    def optim(self, model: str, params: Adam) -> Mapping[str, float]:
        """Take the gradients into the weights. Raises `Refused` where there is no gradient."""
        held = self._model(model)
        checked(params)
        if not held.pending:
            raise Refused("optim_step: there is no gradient: send forward_backward first")
        pending, held.pending = held.pending, []
        return {"grad_norm:mean": held.optimizer.step(pending, params)}

    def save(self, model: str, folder: Path, *, optimizer: bool) -> None:
        """Write the adapter, and the optimizer beside it. Gradients that wait for an optimizer step are not saved."""
        held = self._model(model)
        files = {ADAPTER: held.adapter.named()} | ({OPTIMIZER: held.optimizer.state()} if optimizer else {})
        config = json.dumps(self._layers.config(held.adapter.lora, self._base.name), indent=1)
        about = {"kind": "lora", "base": self._base.name, "alpha": ALPHA, "lora": asdict(held.adapter.lora)}
        tensors.publish(folder, files, {CONFIG: config}, about)

    def load(self, model: str, folder: Path, *, optimizer: bool) -> None:
        """Make a model of what `save` wrote. Raises `Refused`; a model of this name stays as it was then."""
        held = _held(adapter_of(folder, self._layers))
        if optimizer:
            held.optimizer.restore(tensors.read(folder, OPTIMIZER), folder.name)
        self._models[model] = held

    def unload(self, model: str) -> None:
        """Forget a model."""
        self._models.pop(model, None)

    def _model(self, model: str) -> _Model:
        if model not in self._models:
            raise Refused(f"model_id: {model[:80]}: there is no such model: create it or load it first")
        return self._models[model]

    def _inputs(self, step: Step) -> list[dict[str, NDArray[np.generic]]]:
        if not step.data:
            raise Refused("forward_backward: data: is empty: send at least one datum")
        return [self._datum(step.loss, datum) for datum in step.data]

    def _datum(self, loss: str, datum: Datum) -> dict[str, NDArray[np.generic]]:
        if not 1 <= len(datum.tokens) <= self._base.context:
            raise Refused(f"model_input: has {len(datum.tokens)} tokens: pass 1 to {self._base.context}")
        inputs = inputs_of(loss, datum.inputs, len(datum.tokens))
        for name, each in (("model_input", datum.tokens), ("target_tokens", inputs["target_tokens"])):
            if each.min() < 0 or each.max() >= self._base.vocabulary:
                raise Refused(f"{name}: holds a token outside of 0 to {self._base.vocabulary - 1}: use its tokenizer")
        return inputs

    def _passes(
        self, step: Step, inputs: list[dict[str, NDArray[np.generic]]], config: dict[str, float], weights: list[Tensor]
    ) -> tuple[list[NDArray[np.float32]], Tensor, list[Tensor]]:
        logprobs: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(inputs)
        losses, gradients = [], list[Tensor]()
        for places in packed([len(each.tokens) for each in step.data], self._budget):
            p = self._logprobs([step.data[place].tokens for place in places], [inputs[place] for place in places])
            loss = self._loss(step.loss, p, [inputs[place] for place in places], config)
            losses.append(loss.detach())
            if not step.forward_only:
                gradients = _added(gradients, list(torch.autograd.grad(loss, weights)))
            for place, each in zip(places, p, strict=True):
                logprobs[place] = each.detach().cpu().numpy()
        return logprobs, torch.stack(losses).sum(), gradients

    def _logprobs(
        self, rows: Sequence[NDArray[np.int64]], inputs: Sequence[Mapping[str, NDArray[np.generic]]]
    ) -> list[Tensor]:
        """Return the log-probabilities of the targets of each row, float32 of their shape.

        Without a mask: padding is on the right, and no token looks to its right.
        """
        logits = self._base.model(padded(rows, self._base.device), use_cache=False).logits.float()
        targets, used = (self._tensor(each) for each in _grid([each["target_tokens"] for each in inputs]))
        p = logits.gather(2, targets) - logits.logsumexp(2, keepdim=True)
        shapes = [each["target_tokens"].shape for each in inputs]
        flat: Sequence[Tensor] = p[used].split([math.prod(shape) for shape in shapes])
        return [each.reshape(shape) for each, shape in zip(flat, shapes, strict=True)]

    def _loss(
        self, name: str, p: list[Tensor], inputs: list[dict[str, NDArray[np.generic]]], config: dict[str, float]
    ) -> Tensor:
        """Return the sum over all rows, in float64."""
        flat = {
            key: self._tensor(np.concatenate([each[key].ravel() for each in inputs]).astype(np.float64))
            for key in inputs[0]
            if key != "target_tokens"
        }
        row = self._tensor(np.repeat(np.arange(len(p)), [each.numel() for each in p]))
        return loss_sum(name, torch.cat([each.reshape(-1) for each in p]).double(), flat, config, row)

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._base.device)


def adapter_of(folder: Path, layers: Layers) -> Adapter:
    """Return the adapter that a trainer saved. Raises `Refused` for a torn one, and one of another base."""
    about = manifest.read(folder).about.get("lora")
    if not isinstance(about, dict) or about.keys() != {each.name for each in fields(Lora)}:
        raise Refused(f"weights: {folder.name}: is not an adapter: pass a checkpoint of a LoRA model")
    return layers.filled(Lora(**about), tensors.read(folder, ADAPTER), folder.name)


def _held(adapter: Adapter) -> _Model:
    named = adapter.named()
    for each in named.values():
        each.requires_grad_(True)
    return _Model(adapter, AdamW(named))


def _grid(targets: Sequence[NDArray[np.generic]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return targets of [N] or [N, K] as one [rows, longest, widest], and where it holds them."""
    wide = [each.reshape(len(each), -1) for each in targets]
    shape = (len(wide), max(each.shape[0] for each in wide), max(each.shape[1] for each in wide))
    grid, used = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    for place, each in enumerate(wide):
        at = (place, slice(each.shape[0]), slice(each.shape[1]))
        grid[at], used[at] = each, True
    return grid, used


def _added(one: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    return [a + b for a, b in zip(one, other, strict=True)] if one and other else one or other


def _finite(values: Sequence[Tensor]) -> bool:
    return all(bool(torch.isfinite(each).all()) for each in values)


def _seed(model: str) -> int:
    return int.from_bytes(hashlib.sha256(model.encode()).digest()[:8], "big")
