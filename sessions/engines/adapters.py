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

from muster.sessions.engines.base import Base
from muster.sessions.refusals import Refused
from muster.sessions.seam import Lora

__all__ = ["ALPHA", "Adapter", "Bundle", "Layers"]

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
        return _named(self.pairs)

    @property
    def shape(self) -> tuple[int, tuple[str, ...]]:
        """What adapters of one bundle have in common: their rank and layers."""
        return self.lora.rank, tuple(self.pairs)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Adapters of one shape, each for the same number of neighbouring rows, whose products are taken together.

    Attributes:
        pairs: A and B by the path of their layer, with a dimension in front where there are several adapters.
        scale: of all.
        rows: of all together; None for all rows that there are.
    """

    pairs: Mapping[str, tuple[Tensor, Tensor]]
    scale: float
    rows: int | None = None

    @classmethod
    def of(cls, adapters: Sequence[Adapter], rows: int | None = None) -> Bundle:
        """Bundle adapters; the matrices of several are copies, with gradients of their own."""
        first = adapters[0]
        if len(adapters) == 1:
            return cls(first.pairs, first.scale, rows)
        return cls({path: _stacked([each.pairs[path] for each in adapters]) for path in first.pairs}, first.scale, rows)

    def gradients(self, taken: Mapping[str, tuple[Tensor, Tensor]]) -> list[list[Tensor]]:
        """Return what was found for `pairs` as a list for each adapter, in the order of `Adapter.named`."""
        found = _named(taken)
        if next(iter(found.values())).ndim == 2:
            return [list(found.values())]
        return [list(each) for each in zip(*(each.unbind() for each in found.values()), strict=True)]


class Layers:
    """The layers of a base that can have adapters, and the adapter that is active."""

    def __init__(self, base: Base) -> None:
        self._device = base.device
        self._active: Sequence[Bundle] = ()
        self._layers = dict(_layers(base.model))
        self._fused = any(each.ndim == 3 for each in base.model.parameters())
        for path, (_, layer) in self._layers.items():
            layer.register_forward_hook(self._hook(path))

    @contextmanager
    def active(self, adapter: Adapter | None) -> Iterator[None]:
        """Compute with an adapter inside the block; None is the base."""
        with self.shared([] if adapter is None else [Bundle.of([adapter])]):
            yield

    @contextmanager
    def shared(self, bundles: Sequence[Bundle]) -> Iterator[None]:
        """Compute with bundles inside the block, each for its rows, one after the other; none at all is the base."""
        self._active = bundles
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
                return _adapted(self._active[0], path, inputs[0], output)
            if not self._active:
                return output
            rows = [each.rows or 0 for each in self._active]
            parts = zip(self._active, inputs[0].split(rows), output.split(rows), strict=True)
            return torch.cat([_adapted(each, path, x, y) for each, x, y in parts])

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


def _adapted(bundle: Bundle, path: str, x: Tensor, y: Tensor) -> Tensor:
    if path not in bundle.pairs:
        return y
    # In the type of the base: copies of what a layer reads and gives would be most of what a pass keeps.
    a, b = ((each if each.ndim == 3 else each[None]).to(y.dtype) for each in bundle.pairs[path])
    read = x.reshape(len(a), -1, a.shape[2])
    wide = y.reshape(len(a), -1, b.shape[1])
    return torch.baddbmm(wide, read @ a.mT, b.mT, alpha=bundle.scale).view(y.shape)


def _stacked(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    a, b = (torch.stack([each.detach() for each in side]).requires_grad_() for side in zip(*pairs, strict=True))
    return a, b


def _named(pairs: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    sides = {
        f"{_PREFIX}{path}.lora_{side}.weight": each
        for path, pair in pairs.items()
        for side, each in zip("AB", pair, strict=True)
    }
    return dict(sorted(sides.items()))


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
