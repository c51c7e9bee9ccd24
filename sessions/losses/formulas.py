"""The losses as sums over tokens.

With p the log-probability now, q the one given, A the advantage and r = exp(p - q):

cross_entropy -w p; importance_sampling -r A; ppo -min(r A, clip(r) A); cispo -sg(clip(r)) p A;
dro -(p A - beta/2 (p - q)^2); gspo as ppo with r = sg(s) p/sg(p), s the geometric mean of a sequence's ratios.

Source: the pages under `tinker/losses` of the Tinker documentation. A token whose advantage is 0 adds exactly 0
also where its ratio overflows, except in `dro`, which pulls it towards q.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = ["loss_sum"]

_Inputs: TypeAlias = Mapping[str, Tensor]
_Config: TypeAlias = Mapping[str, float]


def loss_sum(name: str, p: Tensor, inputs: _Inputs, config: _Config, row: Tensor) -> Tensor:
    """Return the sum of a loss over the tokens of several sequences, as a scalar with a gradient for `p`.

    Args:
        name: of a loss in `table`.
        p: [T], log-probabilities of the targets, one sequence after the other; [N, K] targets are N * K of them.
        inputs: of the loss by name, [T] each.
        config: numbers of the loss by name, all of them.
        row: int64 [T], the sequence that each belongs to, from 0.
    """
    return _FORMULAS[name](p, inputs, config, row).sum()


def _cross_entropy(p: Tensor, inputs: _Inputs, _config: _Config, _row: Tensor) -> Tensor:
    return -inputs["weights"] * p


def _importance_sampling(p: Tensor, inputs: _Inputs, _config: _Config, _row: Tensor) -> Tensor:
    return -_ratio(p, inputs) * inputs["advantages"]


def _ppo(p: Tensor, inputs: _Inputs, config: _Config, _row: Tensor) -> Tensor:
    return _pessimistic(_ratio(p, inputs), inputs["advantages"], config)


def _cispo(p: Tensor, inputs: _Inputs, config: _Config, _row: Tensor) -> Tensor:
    return -_clipped(_ratio(p, inputs).detach(), config) * p * inputs["advantages"]


def _dro(p: Tensor, inputs: _Inputs, config: _Config, _row: Tensor) -> Tensor:
    return -(p * inputs["advantages"] - 0.5 * config["beta"] * (p - inputs["logprobs"]) ** 2)


def _gspo(p: Tensor, inputs: _Inputs, config: _Config, row: Tensor) -> Tensor:
    mean = _means(p.detach() - inputs["logprobs"], inputs["sequence_ratio_mask"] != 0, row)
    used = torch.where(inputs["advantages"] != 0, mean[row], torch.zeros_like(p))
    return _pessimistic(torch.exp(used + p - p.detach()), inputs["advantages"], config)


def _ratio(p: Tensor, inputs: _Inputs) -> Tensor:
    logs = p - inputs["logprobs"]
    return torch.exp(torch.where(inputs["advantages"] != 0, logs, torch.zeros_like(logs)))


def _pessimistic(ratio: Tensor, advantages: Tensor, config: _Config) -> Tensor:
    return -torch.minimum(ratio * advantages, _clipped(ratio, config) * advantages)


def _clipped(ratio: Tensor, config: _Config) -> Tensor:
    return ratio.clamp(config["clip_low_threshold"], config["clip_high_threshold"])


def _means(values: Tensor, chosen: Tensor, row: Tensor) -> Tensor:
    """Return the mean of the chosen values of each row, [rows]; 0 for a row of which none is chosen."""
    rows = int(row.max()) + 1
    sums = values.new_zeros(rows).index_add(0, row, torch.where(chosen, values, torch.zeros_like(values)))
    counts = values.new_zeros(rows).index_add(0, row, chosen.to(values.dtype))
    return sums / counts.clamp(min=1)


_FORMULAS: Mapping[str, Callable[[Tensor, _Inputs, _Config, Tensor], Tensor]] = {
    "cross_entropy": _cross_entropy,
    "importance_sampling": _importance_sampling,
    "ppo": _ppo,
    "cispo": _cispo,
    "dro": _dro,
    "gspo": _gspo,
}
