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

from sessions.engines.adapters import Adapter, Layers
from sessions.engines.base import Base
from sessions.engines.batches import packed, padded
from sessions.losses.formulas import loss_sum
from sessions.seam import Step

__all__ = ["Inputs", "Passes", "Work", "added"]

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


_Row: TypeAlias = tuple[Work, int]


class Passes:
    """Runs work in passes of at most `budget` tokens, padding included."""

    def __init__(self, base: Base, layers: Layers, budget: int) -> None:
        self._base = base
        self._layers = layers
        self.budget = budget

    def run(self, works: Sequence[Work]) -> None:
        """Fill in what each step gives. Rows of several models share passes; each adapter may stand once."""
        rows = [(work, place) for work in works for place in range(len(work.inputs))]
        for places in packed([len(work.step.data[place].tokens) for work, place in rows], self.budget):
            self._pass([rows[place] for place in sorted(places)])

    def _pass(self, rows: Sequence[_Row]) -> None:
        groups = [list(each) for _, each in groupby(rows, key=lambda row: id(row[0]))]
        backward = any(not work.step.forward_only for work, _ in rows)
        shares = [(group[0][0].adapter, len(group)) for group in groups]
        with self._layers.shared(shares), torch.set_grad_enabled(backward):
            p = iter(self._logprobs(rows))
            losses = [self._loss(group, [next(p) for _ in group]) for group in groups]
            if backward:
                self._backward([group[0][0] for group in groups], losses)

    @staticmethod
    def _backward(works: Sequence[Work], losses: Sequence[Tensor]) -> None:
        wanted = [(work, loss) for work, loss in zip(works, losses, strict=True) if not work.step.forward_only]
        weights = [list(work.adapter.named().values()) for work, _ in wanted]
        total = torch.stack([loss for _, loss in wanted]).sum()
        found = iter(torch.autograd.grad(total, [each for some in weights for each in some]))
        for (work, _), some in zip(wanted, weights, strict=True):
            work.gradients = added(work.gradients, [next(found) for _ in some])

    def _logprobs(self, rows: Sequence[_Row]) -> Sequence[Tensor]:
        """Return the log-probabilities of the targets of each row, float32 and flat.

        Without a mask: padding is on the right, and no token looks to its right.
        """
        tokens = padded([work.step.data[place].tokens for work, place in rows], self._base.device)
        logits = self._base.model(tokens, use_cache=False).logits.float()
        wanted = [work.inputs[place]["target_tokens"] for work, place in rows]
        targets, used = (self._tensor(each) for each in _grid(wanted))
        p = logits.gather(2, targets) - logits.logsumexp(2, keepdim=True)
        flat: Sequence[Tensor] = p[used].split([math.prod(each.shape) for each in wanted])
        return flat

    def _loss(self, rows: Sequence[_Row], p: Sequence[Tensor]) -> Tensor:
        """Return the sum over rows of one model, in float64, and keep what is answered of them."""
        work, inputs = rows[0][0], [work.inputs[place] for work, place in rows]
        flat = {
            key: self._tensor(np.concatenate([each[key].ravel() for each in inputs]).astype(np.float64))
            for key in inputs[0]
            if key != "target_tokens"
        }
        row = self._tensor(np.repeat(np.arange(len(p)), [each.numel() for each in p]))
        loss = loss_sum(work.step.loss, torch.cat(list(p)).double(), flat, work.config, row)
        work.losses.append(loss.detach())
        for (_, place), each in zip(rows, p, strict=True):
            work.logprobs[place] = each.detach().cpu().numpy().reshape(work.inputs[place]["target_tokens"].shape)
        return loss

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._base.device)


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
