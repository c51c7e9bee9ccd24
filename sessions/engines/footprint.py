"""How much memory a trainer needs, before it has any: torch runs its passes on fake tensors, and counts.

A pass of few layers and one of some more say what a layer adds. Over tokens a pass is the larger of two straight
lines: few tokens need most for their logits, many for the layer that is computed. Attention is linear, as in the
kernels that torch takes; where a model has windows, transformers makes a mask of the square of a sequence, and numbers
beyond 16,384 tokens are too small. What is counted is tensors; a device needs some room beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import masking_utils

from muster.sessions.engines.activations import Scorer, recompute_layers
from muster.sessions.engines.adapters import Adapter, Layers
from muster.sessions.engines.base import Base
from muster.sessions.engines.whole import named
from muster.sessions.seam import Lora

__all__ = ["ROOM", "Footprint", "Plan", "footprint", "peak"]

ROOM = 0.92
"""Part of a device's memory that tensors may have; the rest is CUDA's own, and what its allocator cannot join."""

_LENGTHS = ((1024, 2048), (8192, 16384))  # of each line
_NEVER = 2**62
_MOMENTS, _SUMS, _MASTER = 8, 4, 4  # bytes of each trained number; masters where weights have 16 bits


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be trained.

    Attributes:
        config: of the base model, as `AutoConfig` reads it.
        lora: the adapter; None for all weights.
        dtype: of the weights.
        recompute: whether layers are computed again in the backward pass.
    """

    config: Any
    lora: Lora | None
    dtype: torch.dtype
    recompute: bool = True


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of a trainer on one device.

    Attributes:
        held: between two passes: weights, and what the optimizer has.
        lines: what a pass needs beside `held`, as bytes at no token and bytes a token; the larger sum counts.
    """

    held: float
    lines: tuple[tuple[float, float], ...]

    def bytes(self, tokens: int) -> float:
        """Return what a pass of so many tokens needs at its peak, padding included."""
        return self.held + max(once + each * tokens for once, each in self.lines)

    def longest(self, memory: float) -> int:
        """Return how many tokens a pass may have on a device with so many bytes; 0 where there is room for none."""
        left = memory * ROOM - self.held
        return max(0, int(min((left - once) / each for once, each in self.lines)))


def footprint(plan: Plan) -> Footprint:
    """Return what a trainer needs."""
    period = _period(plan.config)
    layers = int(plan.config.get_text_config().num_hidden_layers)
    few = max(2, period)  # the first layer of adapters passes no gradient on

    def whole(of: Callable[[int], float]) -> float:
        one, two = of(few), of(few + period)
        return one + (two - one) * (layers - few) / period

    def line(first: int, second: int) -> tuple[float, float]:
        at, then = (whole(partial(peak, plan, tokens)) for tokens in (first, second))
        each = (then - at) / (second - first)
        return at - each * first, each

    return Footprint(whole(partial(_held, plan)), tuple(line(*pair) for pair in _LENGTHS))


def peak(plan: Plan, tokens: int, layers: int) -> float:
    """Return the bytes of a pass forward and backward at their peak, beside what is held between passes."""
    with _faking():
        fake = _Fake(plan, layers)
        recompute_layers(fake.model, above=0 if plan.recompute else _NEVER)
        scorer, tracker = Scorer(fake.model), _Tracker()
        tracker.track_external(fake.model, *fake.trained)
        before = _total(tracker, "current")
        ids = torch.zeros((1, tokens), dtype=torch.int64)
        with tracker, fake.layers.active(fake.adapter):
            torch.autograd.grad(scorer(ids, ids[..., None]).sum(), fake.trained, allow_unused=True)
        return _total(tracker, "peak") - before


@contextmanager
def _faking() -> Iterator[None]:
    """Make tensors without memory inside the block.

    transformers looks at values to see that a row is one sequence, which then needs no mask. A fake one has no values.
    """
    looks = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda _: None
    try:
        with FakeTensorMode():
            yield
    finally:
        masking_utils.find_packed_sequence_indices = looks


class _Fake(Base):
    """A base of some layers, and what is trained of it; inside a mode of fake tensors nothing of it has memory."""

    def __init__(self, plan: Plan, layers: int) -> None:
        config = deepcopy(plan.config)
        text = config.get_text_config()
        text.num_hidden_layers = layers
        if getattr(text, "layer_types", None):
            text.layer_types = text.layer_types[:layers]
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=plan.dtype)
        self._take(Path("fake"), model.requires_grad_(plan.lora is None).eval(), "cpu")
        self.layers = Layers(self)
        self.adapter: Adapter | None = None if plan.lora is None else self.layers.fresh(plan.lora, 0)
        self.trained = list((named(model) if self.adapter is None else self.adapter.named()).values())
        for each in self.trained:
            each.requires_grad_(True)


class _Tracker(MemTracker):  # type: ignore[misc]  # mypy sees no torch
    """Torch's, for models with frozen weights: those take no hook."""

    def _track_module_params_and_buffers(self, module: nn.Module, **_: bool) -> tuple[int, int]:
        found: tuple[int, int] = super()._track_module_params_and_buffers(module, install_grad_hooks=False)
        return found


def _total(tracker: MemTracker, when: str) -> int:
    return sum(int(of["Total"]) for of in tracker.get_tracker_snapshot(when).values())


def _held(plan: Plan, layers: int) -> float:
    with _faking():
        fake = _Fake(plan, layers)
    trained = sum(int(each.numel()) for each in fake.trained)
    masters = _MASTER if any(each.dtype.itemsize < _MASTER for each in fake.trained) else 0
    own = 0 if plan.lora is None else _size(fake.trained)
    return _size(fake.model.parameters()) + own + trained * (_MOMENTS + _SUMS + masters)


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(int(each.numel()) * int(each.dtype.itemsize) for each in tensors)


def _period(config: Any) -> int:
    """Return after how many layers their kinds repeat."""
    kinds = getattr(config.get_text_config(), "layer_types", None) or ["full_attention"]
    return next(
        count for count in range(1, len(kinds) + 1) if all(kind == kinds[at % count] for at, kind in enumerate(kinds))
    )
