"""Advantages as Dr. GRPO has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

__all__ = ["unscaled"]

_EPSILON = 1e-8  # that of `_AsyncRolloutLoop._score_group`, TRL 1.16.0


def unscaled(samples: Iterable[RolloutSample]) -> list[RolloutSample]:
    """Undo the division by the standard deviation of the group (arXiv 2503.20783, section 3.2)."""
    return [
        dataclasses.replace(sample, advantage=sample.advantage * (sample.metrics["reward_std"] + _EPSILON))
        for sample in samples
    ]
