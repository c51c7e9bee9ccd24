"""What is measured of a training, and under which names TRL logs it.

Source: trl 1.16.0 trainer/grpo_trainer.py and experimental/async_grpo/async_grpo_trainer.py. Names that begin with
`muster/` are logged by this package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["DIFFERENCE", "MEASURES", "SYNC", "TOKENS", "Measure", "number", "values"]

DIFFERENCE, SYNC, TOKENS = "muster/logp_difference", "muster/weight_sync_s", "muster/tokens_per_second"


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity.

    Attributes:
        name: in metrics and code.
        logged: keys of a trainer's log; what is found is added up.
        title: for people, with its unit.
    """

    name: str
    logged: tuple[str, ...]
    title: str


MEASURES = (
    Measure("reward", ("reward",), "Mean reward of a step"),
    Measure(
        "difference",
        ("sampling/sampling_logp_difference/mean", DIFFERENCE),
        "Mean difference of log probabilities, trainer and sampler (nats)",
    ),
    Measure("ratio", ("sampling/importance_sampling_ratio/mean", "ratio"), "Mean importance ratio"),
    Measure("staleness", ("sample/staleness_mean",), "Versions by which samples are behind, mean"),
    Measure("sync_seconds", ("perf/weight_sync_s", SYNC), "Sending weights to the sampler (seconds)"),
    Measure("tokens_per_second", ("perf/trained_tok_s_wall_clock", TOKENS), "Tokens a second"),
    Measure("dropped", ("sample/dropped_stale_total", "batch/dropped_oversize_total"), "Samples thrown away"),
)


def values(row: Mapping[str, Any]) -> dict[str, float]:
    """Return what one row of a log says, by the names of measures; what is not a finite number is left out."""
    found = {}
    for each in MEASURES:
        parts = [value for key in each.logged if (value := number(row.get(key))) is not None]
        if parts:
            found[each.name] = sum(parts)
    return found


def number(value: object) -> float | None:
    """Return a finite number of a sensible size; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e15 and math.isfinite(value) else None
