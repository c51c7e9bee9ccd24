"""Full fine-tuning: one model, which is all weights of the base, behind the same seam as adapters.

A client of tinker 0.38.0 always sends a `LoraConfig`; one of rank 0 asks for all weights here. Tensors have the names
of the module in transformers, and those that are tied are written once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from muster.sessions.engines.adam import AdamW
from muster.sessions.engines.adapters import Adapter
from muster.sessions.engines.base import prepare
from muster.sessions.engines.passes import Part, Passes, added
from muster.sessions.engines.sampler import TransformersSampler
from muster.sessions.engines.shelf import Shelf, weights_of
from muster.sessions.engines.trainer import OPTIMIZER, Held, TorchTrainer
from muster.sessions.refusals import Refused
from muster.sessions.seam import Lora, Sampled, Sampling
from muster.sessions.weights import manifest, tensors

__all__ = ["MODEL", "WholeSampler", "WholeTrainer", "named", "summable", "whole_of"]

MODEL = "model.safetensors"
_CONFIG = "config.json"
_ALL = Lora(rank=0)


class WholeTrainer(TorchTrainer):
    """A `Trainer` of all weights of one model; gradients and both moments of AdamW are as large as the model.

    Args:
        base: folder of the base model, as `from_pretrained` reads it.
        budget: tokens of one pass, padding included; a step of more is divided.
        device: such as `cpu` or `cuda`.
        dtype: of the weights; those of 16 bits have masters, sums of gradients and moments in float32.
        keep: tokens of one pass in which all activations are kept, as of `TorchTrainer`.
    """

    def __init__(
        self,
        base: Path,
        *,
        budget: int = 4096,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        keep: int | None = None,
    ) -> None:
        super().__init__(base, budget=budget, device=device, dtype=dtype, keep=keep)
        self._folder = base
        self._base.model.requires_grad_(True)
        self._weights = named(self._base.model)
        self._passes = _Passes(self._base, self._layers, budget)

    def create(self, model: str, lora: Lora) -> None:
        """Begin with the weights of the base. Raises `Refused` for an adapter, and for a second model."""
        if replace(lora, seed=None) != _ALL:
            raise Refused(
                f"lora_config.rank: {lora.rank}: all weights are trained here: pass rank=0, and leave train_mlp, "
                "train_attn and train_unembed true"
            )
        self._only(model)
        self._take(named(_read(self._folder, self._base.model.dtype)))
        self._hold(model)

    def save(self, model: str, folder: Path, *, optimizer: bool) -> None:
        """Write all weights, and the optimizer beside them."""
        self.publish(folder, self.files(model, optimizer=optimizer))

    def files(self, model: str, *, optimizer: bool) -> dict[str, Mapping[str, Tensor]]:
        """Return what `save` writes, by file and name."""
        held = self._model(model)
        return {MODEL: self._weights} | ({OPTIMIZER: held.optimizer.state()} if optimizer else {})

    def publish(self, folder: Path, files: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Write what `files` returned."""
        config = json.dumps(self._base.model.config.to_dict(), indent=1, default=str)
        tensors.publish(folder, files, {_CONFIG: config}, {"kind": "full", "base": self._base.name})

    def load(self, model: str, folder: Path, *, optimizer: bool) -> None:
        """Take what `save` wrote. Raises `Refused`; the weights stay as they were then."""
        self._only(model)
        found = whole_of(folder, self._weights)
        state = tensors.read(folder, OPTIMIZER) if optimizer else {}
        fresh = self._fresh()
        fresh.restore(state, folder.name)
        self._take(found)
        self._hold(model, fresh)

    def _divided(self, base: list[Tensor], live: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        return [], [*base, *live]

    def _hold(self, model: str, optimizer: AdamW | None = None) -> None:
        self._models[model] = Held(Adapter(_ALL, {}), optimizer or self._fresh())

    def _fresh(self) -> AdamW:
        return AdamW(self._weights)

    def _take(self, found: Mapping[str, Tensor]) -> None:
        _take(self._weights, found)

    def _only(self, model: str) -> None:
        for other in self._models:
            if other != model:
                raise Refused("model_id: all weights are trained here, of one model at a time: unload the other first")


class _Passes(Passes):
    """Passes of one model whose gradients are those of all weights."""

    def compute(self, parts: Sequence[Part]) -> None:
        (part,) = parts
        weights = list(named(self._base.model).values())
        backward = not part.work.step.forward_only
        with torch.set_grad_enabled(backward):
            loss = self._loss(part, self._logprobs([(part.work, place) for place in part.places]))
            if backward:
                found = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
                part.work.gradients = added(part.work.gradients, [summable(each) for each in found])


class WholeSampler:
    """A `Sampler` of whole models, of which one is in memory; another one is read, and verified, when it is asked for.

    Args:
        base: folder of the base model and its tokenizer, as `from_pretrained` reads it.
        budget: tokens of one batch, with those to come and padding; what is over it waits.
        device: such as `cpu` or `cuda`.
        dtype: of the weights.
    """

    prepare = staticmethod(prepare)

    def __init__(
        self, base: Path, *, budget: int = 65536, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        self._folder = base
        self._inner = TransformersSampler(base, budget=budget, device=device, dtype=dtype)
        self._weights = named(self._inner.model)
        self._folders: dict[str, Path] = {}
        self._now: str | None = None
        self._read: tuple[Path, dict[str, Tensor]] | None = None  # what was loaded last, until it is asked for
        self._shelf = Shelf()

    def load(self, weights: str, folder: Path) -> None:
        """Take a model that `WholeTrainer.save` wrote. Raises `Refused` for a torn one."""
        self._read = None  # before another one is in memory
        self._read = folder, whole_of(folder, self._weights)
        self._folders[weights] = folder
        if self._now == weights:
            self._now = ""  # of this name, but not these

    def unload(self, weights: str) -> None:
        """Forget weights."""
        self._folders.pop(weights, None)

    def away(self) -> None:
        """Move the model in memory to the host."""
        self._read = None
        self._shelf.away([], weights_of(self._inner.model))

    def back(self) -> None:
        """Have it on the device again."""
        self._shelf.back()
        self._shelf.own(weights_of(self._inner.model))

    def sample(self, requests: Sequence[Sampling]) -> Sequence[Sampled | Refused]:
        """Answer each request in its place, those of the model in memory first."""
        out: list[Sampled | Refused] = [Sampled()] * len(requests)
        for weights in sorted({each.weights for each in requests}, key=lambda name: (name != self._now, name or "")):
            places = [place for place, each in enumerate(requests) if each.weights == weights]
            for place, answer in zip(places, self._answers(weights, [requests[each] for each in places]), strict=True):
                out[place] = answer
        return out

    def _answers(self, weights: str | None, requests: Sequence[Sampling]) -> Sequence[Sampled | Refused]:
        try:
            self._swap(weights)
        except Refused as refusal:
            return [refusal] * len(requests)
        return self._inner.sample([replace(each, weights=None) for each in requests])

    def _swap(self, weights: str | None) -> None:
        if weights == self._now:
            return
        if weights is None:
            found = named(_read(self._folder, self._inner.model.dtype))
        elif weights in self._folders:
            folder = self._folders[weights]
            found = self._read[1] if self._read and self._read[0] == folder else whole_of(folder, self._weights)
        else:
            raise Refused(f"model_path: {weights[:80]}: is not loaded: create the sampling client again")
        self._read = None
        _take(self._weights, found)
        self._now = weights


def whole_of(folder: Path, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights that a trainer saved. Raises `Refused` for torn ones, and those of another model."""
    if manifest.read(folder).about.get("kind") != "full":
        raise Refused(f"weights: {folder.name}: are not a whole model: pass a checkpoint of full fine-tuning")
    found = tensors.read(folder, MODEL)
    if {name: each.shape for name, each in found.items()} != {name: each.shape for name, each in like.items()}:
        raise Refused(f"weights: {folder.name}: do not fit this base model: pass a checkpoint that was made on it")
    return found


def named(model: Any) -> dict[str, Tensor]:
    """Return the weights by name, in the order of names; tied ones stand once."""
    return dict(sorted(model.named_parameters()))


def summable(gradient: Tensor) -> Tensor:
    """Return a gradient of one pass in the type in which those of several are added: float32 at least."""
    return gradient.float() if gradient.dtype.itemsize < 4 else gradient


def _read(folder: Path, dtype: torch.dtype) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)


def _take(weights: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, each in weights.items():
            each.copy_(found[name])
