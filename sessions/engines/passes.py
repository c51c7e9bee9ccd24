"""Forward and backward passes over the rows of one or of several models at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from muster.sessions.engines.activations import Scorer
from muster.sessions.engines.adapters import Adapter, Bundle, Layers
from muster.sessions.engines.base import Base
from muster.sessions.engines.batches import dealt, padded
from muster.sessions.losses.formulas import loss_sum
from muster.sessions.seam import Step

__all__ = ["Inputs", "Part", "Passes", "Work", "added"]

Inputs: TypeAlias = Mapping[str, NDArray[np.generic]]


@dataclass(slots=True)
class Work:
    """A step of one model, and what it gave.

    Attributes:
        adapter: of the model.
        step: what is asked for.
        inputs: of the loss for each datum, checked.
        config: of the loss, with defaults.
        logprobs: float32 for each datum, of the shape of its targets.
        losses: float64 sums, one a pass.
        gradients: in the order of the adapter's names; empty after a forward pass alone.
    """

    adapter: Adapter
    step: Step
    inputs: Sequence[Inputs]
    config: Mapping[str, float]
    logprobs: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    losses: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)

    @property
    def loss(self) -> float:
        """The sum over all passes."""
        return float(torch.stack(self.losses).sum())


@dataclass(frozen=True, slots=True)
class Part:
    """What one model has in a pass."""

    work: Work
    places: Sequence[int]

    @property
    def shape(self) -> tuple[int, int, tuple[str, ...]]:
        """What parts have in common whose adapters are taken together: rows, rank and layers."""
        return len(self.places), *self.work.adapter.shape


class Passes:
    """Runs work in passes of at most `budget` tokens, padding included."""

    def __init__(self, base: Base, layers: Layers, budget: int) -> None:
        self._base = base
        self._layers = layers
        self.budget = budget
        self.scorer = Scorer(base.model)

    def run(self, works: Sequence[Work]) -> None:
        """Fill in what each step gives. Rows of several models share passes; each adapter may stand once.

        Steps with a backward pass and those without do not share any.
        """
        for forward_only in (False, True):
            some = [each for each in works if each.step.forward_only == forward_only]
            for dealing in dealt([[len(datum.tokens) for datum in each.step.data] for each in some], self.budget):
                self.compute(
                    sorted(
                        (Part(some[number], sorted(places)) for number, places in dealing), key=lambda part: part.shape
                    )
                )

    def compute(self, parts: Sequence[Part]) -> None:
        """Compute one pass, of parts that are sorted by their shape."""
        backward = not parts[0].work.step.forward_only
        bundles = [
            Bundle.of([part.work.adapter for part in each], shape[0] * len(each))
            for shape, each in ((shape, list(same)) for shape, same in groupby(parts, key=lambda part: part.shape))
        ]
        with self._layers.shared(bundles), torch.set_grad_enabled(backward):
            p = iter(self._logprobs([(part.work, place) for part in parts for place in part.places]))
            losses = [self._loss(part, [next(p) for _ in part.places]) for part in parts]
            if backward:
                _backward(parts, bundles, torch.stack(losses).sum())

    def _logprobs(self, rows: Sequence[tuple[Work, int]]) -> Sequence[Tensor]:
        """Return the log-probabilities of the targets of each row, float32 and flat."""
        tokens = padded([work.step.data[place].tokens for work, place in rows], self._base.device)
        wanted = [work.inputs[place]["target_tokens"] for work, place in rows]
        targets, used = (self._tensor(each) for each in _grid(wanted))
        flat: Sequence[Tensor] = self.scorer(tokens, targets)[used].split([math.prod(each.shape) for each in wanted])
        return flat

    def _loss(self, part: Part, p: Sequence[Tensor]) -> Tensor:
        """Return the sum over rows of one model, in float64, and keep what is answered of them."""
        work, inputs = part.work, [part.work.inputs[place] for place in part.places]
        flat = {
            key: self._tensor(np.concatenate([each[key].ravel() for each in inputs]).astype(np.float64))
            for key in inputs[0]
            if key != "target_tokens"
        }
        row = self._tensor(np.repeat(np.arange(len(p)), [each.numel() for each in p]))
        loss = loss_sum(work.step.loss, torch.cat(list(p)).double(), flat, work.config, row)
        work.losses.append(loss.detach())
        for place, each in zip(part.places, p, strict=True):
            work.logprobs[place] = each.detach().cpu().numpy().reshape(work.inputs[place]["target_tokens"].shape)
        return loss

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._base.device)


def _backward(parts: Sequence[Part], bundles: Sequence[Bundle], total: Tensor) -> None:
    leaves = [each for bundle in bundles for pair in bundle.pairs.values() for each in pair]
    found = iter(torch.autograd.grad(total, leaves))
    taken = [{path: (next(found), next(found)) for path in bundle.pairs} for bundle in bundles]
    gradients = [each for bundle, some in zip(bundles, taken, strict=True) for each in bundle.gradients(some)]
    for part, each in zip(parts, gradients, strict=True):
        part.work.gradients = added(part.work.gradients, each)


def added(one: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    """Return the sums of two lists of gradients, of which each may be empty."""
    return [a + b for a, b in zip(one, other, strict=True)] if one and other else one or other


def _grid(targets: Sequence[NDArray[np.generic]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return targets of [N] or [N, K] as one [rows, longest, widest], and where it holds them."""
    wide = [each.reshape(len(each), -1) for each in targets]
    shape = (len(wide), max(each.shape[0] for each in wide), max(each.shape[1] for each in wide))
    grid, used = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    for place, each in enumerate(wide):
        at = (place, slice(each.shape[0]), slice(each.shape[1]))
        grid[at], used[at] = each, True
    return grid, used
