"""LoRA on a frozen base by forward hooks: a model is two matrices a layer, and becomes active by a pointer.

peft gives each adapter modules of its own: a switch costs milliseconds and grows with their number (facts: 88-200 ms at
50), and two models never share a pass. The arithmetic and the names in files are peft's (`peft/tuners/lora/layer.py` of
0.21.2), and a test holds them together.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sessions.engines.base import Base
from sessions.refusals import Refused
from sessions.seam import Lora

__all__ = ["ALPHA", "Adapter", "Layers"]

ALPHA = 32
"""Tinker's: the scale of an adapter is 32 / rank."""
_MOST_RANK = 512
_PREFIX = "base_model.model."
_Kind = Literal["train_attn", "train_mlp", "train_unembed"]


@dataclass(frozen=True, slots=True)
class Adapter:
    """The matrices of one model.

    Attributes:
        lora: what it was made of.
        pairs: A [rank, in] and B [out, rank] in float32, by the path of their layer.
    """

    lora: Lora
    pairs: Mapping[str, tuple[Tensor, Tensor]]

    @property
    def scale(self) -> float:
        """What the product of the two is multiplied by."""
        return ALPHA / self.lora.rank

    def named(self) -> dict[str, Tensor]:
        """Return all matrices by their name in files, in the order of names."""
        sides = {
            f"{_PREFIX}{path}.lora_{side}.weight": each
            for path, pair in self.pairs.items()
            for side, each in zip("AB", pair, strict=True)
        }
        return dict(sorted(sides.items()))


class Layers:
    """The layers of a base that can have adapters, and the adapter that is active."""

    def __init__(self, base: Base) -> None:
        self._device = base.device
        self._active: Sequence[tuple[Adapter, int]] = ()
        self._layers = dict(_layers(base.model))
        self._fused = any(each.ndim == 3 for each in base.model.parameters())
        for path, (_, layer) in self._layers.items():
            layer.register_forward_hook(self._hook(path))

    @contextmanager
    def active(self, adapter: Adapter | None) -> Iterator[None]:
        """Compute with an adapter inside the block; None is the base."""
        with self.shared([] if adapter is None else [(adapter, 0)]):
            yield

    @contextmanager
    def shared(self, adapters: Sequence[tuple[Adapter, int]]) -> Iterator[None]:
        """Compute with several adapters inside the block, each for its number of rows, one after the other.

        One adapter alone is for all rows; none at all is the base.
        """
        self._active = adapters
        try:
            yield
        finally:
            self._active = ()

    def fresh(self, lora: Lora, seed: int) -> Adapter:
        """Make an adapter that changes nothing yet; its values depend on the seed and the layer alone.

        Raises:
            Refused: for a rank or a choice of layers that this base cannot have.
        """
        shapes = self._shapes(lora)
        return Adapter(
            lora,
            {
                path: (_drawn(a, seed, path).to(self._device), torch.zeros(b, device=self._device))
                for path, (a, b) in shapes.items()
            },
        )

    def filled(self, lora: Lora, tensors: Mapping[str, Tensor], name: str) -> Adapter:
        """Make an adapter of tensors by their name in files. Raises `Refused` for those that do not fit this base."""
        wanted = {
            f"{_PREFIX}{path}.lora_{side}.weight": shape
            for path, pair in self._shapes(lora).items()
            for side, shape in zip("AB", pair, strict=True)
        }
        if wanted != {key: tuple(each.shape) for key, each in tensors.items()}:
            raise Refused(f"weights: {name}: do not fit this base model: pass a checkpoint that was made on it")
        ready = {key: each.to(self._device, torch.float32) for key, each in tensors.items()}
        return Adapter(
            lora,
            {
                path: (ready[f"{_PREFIX}{path}.lora_A.weight"], ready[f"{_PREFIX}{path}.lora_B.weight"])
                for path in self._shapes(lora)
            },
        )

    def config(self, lora: Lora, base: str) -> dict[str, Any]:
        """Return `adapter_config.json`, which peft and vLLM read."""
        return {
            "base_model_name_or_path": base,
            "bias": "none",
            "fan_in_fan_out": False,
            "inference_mode": True,
            "lora_alpha": ALPHA,
            "lora_dropout": 0.0,
            "peft_type": "LORA",
            "r": lora.rank,
            "target_modules": sorted({path.rpartition(".")[2] for path in self._chosen(lora)}),
            "task_type": "CAUSAL_LM",
            "use_dora": False,
            "use_rslora": False,
        }

    def _hook(self, path: str) -> Any:
        def add(_layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            if len(self._active) == 1:
                return _adapted(self._active[0][0], path, inputs[0], output)
            if not self._active:
                return output
            rows = [rows for _, rows in self._active]
            parts = zip(self._active, inputs[0].split(rows), output.split(rows), strict=True)
            return torch.cat([_adapted(adapter, path, x, y) for (adapter, _), x, y in parts])

        return add

    def _shapes(self, lora: Lora) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
        layers = self._chosen(lora)
        return {path: ((lora.rank, each.in_features), (each.out_features, lora.rank)) for path, each in layers.items()}

    def _chosen(self, lora: Lora) -> dict[str, nn.Linear]:
        if not 1 <= lora.rank <= _MOST_RANK:
            raise Refused(f"lora_config.rank: {lora.rank}: pass 1 to {_MOST_RANK}")
        if lora.train_mlp and self._fused:
            raise Refused("lora_config.train_mlp: true: experts cannot have adapters here: pass train_mlp=False")
        chosen = {path: layer for path, (kind, layer) in self._layers.items() if getattr(lora, kind)}
        if not chosen:
            raise Refused("lora_config: nothing would be trained: set train_mlp, train_attn or train_unembed")
        return chosen


def _adapted(adapter: Adapter, path: str, x: Tensor, y: Tensor) -> Tensor:
    if path not in adapter.pairs:
        return y
    a, b = adapter.pairs[path]
    return (y + nn.functional.linear(nn.functional.linear(x.to(a.dtype), a), b) * adapter.scale).to(y.dtype)


def _layers(model: Any) -> Iterator[tuple[str, tuple[_Kind, nn.Linear]]]:
    unembed = model.get_output_embeddings()
    for path, module in sorted(model.named_modules()):
        if isinstance(module, nn.Linear):
            yield path, (_kind(path, module is unembed), module)


def _kind(path: str, unembed: bool) -> _Kind:
    if unembed:
        return "train_unembed"
    return "train_attn" if "attn" in path or "attention" in path else "train_mlp"


def _drawn(shape: tuple[int, int], seed: int, path: str) -> Tensor:
    """Return peft's first values of A: uniform within 1 / sqrt(in) of 0."""
    digest = hashlib.sha256(f"{seed}/{path}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))
    bound = 1 / math.sqrt(shape[1])
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)
