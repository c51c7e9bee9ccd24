"""The losses in float64 NumPy, one sequence at a time, written from the published formulas."""

import numpy as np


def cross_entropy(p, inputs, _config):
    return float(-(inputs["weights"] * p).sum())


def importance_sampling(p, inputs, _config):
    return float(sum(-np.exp(x - q) * a for x, q, a in _tokens(p, inputs)))


def ppo(p, inputs, config):
    return float(sum(_worse(np.exp(x - q), a, config) for x, q, a in _tokens(p, inputs)))


def dro(p, inputs, config):
    return float(sum(-(x * a - config["beta"] / 2 * (x - q) ** 2) for x, q, a in _tokens(p, inputs)))


def cispo(p, inputs, config, frozen=None):
    """`frozen` is p where the gradient stops."""
    frozen = p if frozen is None else frozen
    return float(
        sum(-_clip(np.exp(s - q), config) * x * a for (x, q, a), s in zip(_tokens(p, inputs), frozen, strict=True))
    )


def gspo(p, inputs, config, frozen=None):
    frozen = p if frozen is None else frozen
    chosen = inputs["sequence_ratio_mask"] != 0
    logs = (frozen - inputs["logprobs"])[chosen]
    mean = np.exp(logs.mean()) if chosen.any() else 1.0
    ratios = mean * np.exp(p - frozen)
    return float(sum(_worse(r, a, config) for r, a in zip(ratios, inputs["advantages"], strict=True)))


def _worse(ratio, advantage, config):
    return -min(ratio * advantage, _clip(ratio, config) * advantage)


def _clip(ratio, config):
    return min(max(ratio, config["clip_low_threshold"]), config["clip_high_threshold"])


def _tokens(p, inputs):
    return zip(p, inputs["logprobs"], inputs["advantages"], strict=True)
