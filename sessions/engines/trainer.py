"""A trainer of many LoRA models on one base, each with its gradients and its AdamW.

The same calls in the same order from the same saved state give the same bits on a CPU: sums are taken in an order that
the calls alone decide, and nothing is drawn but by the seed of a model.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from muster.sessions.engines.activations import recompute_layers
from muster.sessions.engines.adam import AdamW, checked
from muster.sessions.engines.adapters import ALPHA, Adapter, Layers
from muster.sessions.engines.base import Base, prepare
from muster.sessions.engines.layouts import company, layouts
from muster.sessions.engines.passes import Inputs, Passes, Work, added
from muster.sessions.engines.shelf import Shelf, weights_of
from muster.sessions.losses.checks import config_of, inputs_of
from muster.sessions.refusals import Refused
from muster.sessions.seam import Adam, Datum, Lora, Outputs, Step
from muster.sessions.weights import manifest, tensors

__all__ = ["ADAPTER", "CONFIG", "OPTIMIZER", "Held", "TorchTrainer", "adapter_of"]

ADAPTER = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
OPTIMIZER = "optimizer.safetensors"
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Held:
    """A model; `pending` are the gradients since the last optimizer step, in the order of names; empty for none."""

    adapter: Adapter
    optimizer: AdamW
    pending: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Summed:
    """What a step gave, before its model has it."""

    held: Held
    gradients: list[Tensor]
    outputs: Outputs

    def keep(self) -> Outputs:
        self.held.pending = self.gradients
        return self.outputs


class TorchTrainer:
    """A `Trainer` on torch.

    Args:
        base: folder of the base model, as `from_pretrained` reads it.
        budget: tokens of one pass, padding included; a step of more is divided. Passes of more than 4096 are slower on
            a CPU, because they leave its caches.
        device: such as `cpu` or `cuda`.
        dtype: of the base; adapters and their optimizers are float32.
        keep: tokens of one pass in which all activations are kept; in a longer one each layer is computed again. The
            budget by default, so that only longer sequences cost more time, and less memory.
    """

    prepare = staticmethod(prepare)

    def __init__(
        self,
        base: Path,
        *,
        budget: int = 4096,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        keep: int | None = None,
    ) -> None:
        self._base = Base(base, device=device, dtype=dtype)
        recompute_layers(self._base.model, above=budget if keep is None else keep)
        self._layers = Layers(self._base)
        self._passes = Passes(self._base, self._layers, budget)
        self._models: dict[str, Held] = {}
        self._shelf = Shelf()

    def create(self, model: str, lora: Lora) -> None:
        """Make a model. Without a seed its name is one, so that a repeated call gives the same bits."""
        self._models[model] = _held(self._layers.fresh(lora, _seed(model) if lora.seed is None else lora.seed))

    def step(self, model: str, step: Step) -> Outputs:
        """Add the gradient of a step. Raises `Refused`, also for gradients that overflow; nothing has changed then."""
        work = self._prepared(model, step)
        self._passes.run([work])
        return self._taken(model, work)

    def steps(self, work: Sequence[tuple[str, Step]]) -> list[tuple[Outputs, str | None] | Refused]:
        """Add the gradients of steps of different models, in shared passes; a `Refused` in the place of a failed one.

        A pass of several models costs less than a pass of each. It rounds differently in the last bits, so a step that
        runs again needs its layout.

        Args:
            work: each model at most once.
        """
        ready = [_refusable(self._prepared, model, step) for model, step in work]
        shared = [each for each in ready if isinstance(each, Work)]
        self._passes.run(shared)
        told = iter(layouts(shared))
        summed = [
            (each, None) if isinstance(each, Refused) else (_refusable(self._summed, model, each), next(told))
            for (model, _), each in zip(work, ready, strict=True)
        ]
        # Only now, so that a fault leaves all models as they were, and each step may run alone.
        return [each if isinstance(each, Refused) else (each.keep(), layout) for each, layout in summed]

    def again(self, model: str, step: Step, layout: str) -> Outputs:
        """Add the gradient of a step as `steps` did. Raises `Refused`, and `ValueError` for another step's layout."""
        work = self._prepared(model, step)
        self._passes.run(company(layout, work, self._layers))
        return self._taken(model, work)

    def optim(self, model: str, params: Adam) -> Mapping[str, float]:
        """Take the gradients into the weights. Raises `Refused` where there are none, or they overflowed."""
        held = self._model(model)
        checked(params)
        if not held.pending:
            raise Refused("optim_step: there is no gradient: send forward_backward first")
        norm = held.optimizer.step(held.pending, params)
        held.pending = []
        return {"grad_norm:mean": norm}

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

    def away(self) -> None:
        """Move base, adapters, gradients and optimizers to the host."""
        base, live = list(weights_of(self._base.model)), []
        for held in self._models.values():
            live += [*held.adapter.named().values(), *held.optimizer.tensors(), *held.pending]
        self._shelf.away(*self._divided(base, live))

    def back(self) -> None:
        """Have all of it on the device again."""
        self._shelf.back()
        self._shelf.own(weights_of(self._base.model))

    def _divided(self, base: list[Tensor], live: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Return what never changes, and what does."""
        return base, live

    def _model(self, model: str) -> Held:
        if model not in self._models:
            raise Refused(f"model_id: {model[:80]}: there is no such model: create it or load it first")
        return self._models[model]

    def _prepared(self, model: str, step: Step) -> Work:
        if not step.data:
            raise Refused("forward_backward: data: is empty: send at least one datum")
        inputs = [self._inputs(step.loss, datum) for datum in step.data]
        return Work(self._model(model).adapter, step, inputs, config_of(step.loss, step.config))

    def _taken(self, model: str, work: Work) -> Outputs:
        return self._summed(model, work).keep()

    def _summed(self, model: str, work: Work) -> _Summed:
        loss, held = work.loss, self._models[model]
        gradients = added(held.pending, work.gradients)
        if not math.isfinite(loss) or (work.gradients and not bool(torch.isfinite(self._norm(gradients)))):
            raise Refused(
                f"forward_backward: {work.step.loss} overflowed: send smaller advantages, or newer logprobs; load a "
                "checkpoint where the weights themselves are too large"
            )
        outputs = Outputs([work.logprobs[place] for place in range(len(work.inputs))], {"loss:sum": loss})
        return _Summed(held, gradients, outputs)

    def _norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return torch.nn.utils.get_total_norm(gradients)

    def _inputs(self, loss: str, datum: Datum) -> Inputs:
        if not 1 <= len(datum.tokens) <= self._base.context:
            raise Refused(f"model_input: has {len(datum.tokens)} tokens: pass 1 to {self._base.context}")
        inputs = inputs_of(loss, datum.inputs, len(datum.tokens))
        if inputs["target_tokens"][0].size > self._base.vocabulary:
            raise Refused(
                f"target_tokens: has more columns than there are tokens: pass {self._base.vocabulary} at most"
            )
        for name, each in (("model_input", datum.tokens), ("target_tokens", inputs["target_tokens"])):
            if each.min() < 0 or each.max() >= self._base.vocabulary:
                raise Refused(f"{name}: holds a token outside of 0 to {self._base.vocabulary - 1}: use its tokenizer")
        return inputs


def adapter_of(folder: Path, layers: Layers) -> Adapter:
    """Return the adapter that a trainer saved. Raises `Refused` for a torn one, and one of another base."""
    about = manifest.read(folder).about.get("lora")
    if not isinstance(about, dict) or about.keys() != {each.name for each in fields(Lora)}:
        raise Refused(f"weights: {folder.name}: is not an adapter: pass a checkpoint of a LoRA model")
    return layers.filled(Lora(**about), tensors.read(folder, ADAPTER), folder.name)


def _refusable(do: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | Refused:
    """Return a refusal instead of raising it."""
    try:
        return do(*args, **named)
    except Refused as refusal:
        return refusal


def _held(adapter: Adapter) -> Held:
    named = adapter.named()
    for each in named.values():
        each.requires_grad_(True)
    return Held(adapter, AdamW(named))


def _seed(model: str) -> int:
    return int.from_bytes(hashlib.sha256(model.encode()).digest()[:8], "big")
