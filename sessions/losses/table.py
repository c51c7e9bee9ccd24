"""The losses by name, with what each reads of a datum and of `loss_fn_config`.

Source: `tinker/types/loss_fn_type.py` of tinker 0.38.0 for the names, the pages under `tinker/losses` of its
documentation for the rest. They give no defaults for `dro` and `gspo`: those here are the documented example of `dro`
and the thresholds of `ppo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["LOSSES", "UNPUBLISHED", "Loss"]


@dataclass(frozen=True, slots=True)
class Loss:
    """What a loss reads.

    Attributes:
        inputs: beside `target_tokens`, of float32; all are required.
        config: numbers by name, with their defaults.
        wide: whether `target_tokens` may have several columns.
    """

    inputs: tuple[str, ...]
    config: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    wide: bool = False


def _clip(low: float, high: float) -> Mapping[str, float]:
    return MappingProxyType({"clip_low_threshold": low, "clip_high_threshold": high})


_POLICY = ("logprobs", "advantages")

LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        "cross_entropy": Loss(("weights",), wide=True),
        "importance_sampling": Loss(_POLICY),
        "ppo": Loss(_POLICY, _clip(0.8, 1.2)),
        "cispo": Loss(_POLICY, _clip(0.0, 4.0)),
        "dro": Loss(_POLICY, MappingProxyType({"beta": 0.05})),
        "gspo": Loss((*_POLICY, "sequence_ratio_mask"), _clip(0.8, 1.2)),
    }
)
UNPUBLISHED = ("stable_reinforce",)
