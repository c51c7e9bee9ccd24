"""Samples: some of the faults, drawn so that each folder has its part and the same seed draws the same ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tools.mutants.mutations import Mutant

__all__ = ["draw", "shares"]


def shares(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Divide `count` among strata, half of it alike and half of it by size, with none asked for more than it has.

    A small folder so has enough mutants that its figure means something, and a large one more of them.
    """
    total, left = sum(sizes.values()), min(count, sum(sizes.values()))
    wanted = {name: (count / len(sizes) + count * size / total) / 2 for name, size in sizes.items() if size}
    out = {name: min(sizes[name], int(each)) for name, each in wanted.items()}
    by_rest = sorted(wanted, key=lambda name: (int(wanted[name]) - wanted[name], name))
    while sum(out.values()) < left:
        for name in by_rest:
            if out[name] < sizes[name] and sum(out.values()) < left:
                out[name] += 1
    return {name: out.get(name, 0) for name in sizes}


def draw(strata: Mapping[str, Sequence[Mutant]], count: int, seed: int) -> dict[str, list[Mutant]]:
    """Draw `count` mutants; every mutant of a stratum is as likely as any other of it."""
    counts = shares({name: len(mutants) for name, mutants in strata.items()}, count)
    out = {}
    for name, mutants in strata.items():
        rng = random.Random(f"{seed} {name}")  # noqa: S311 - no secret
        out[name] = rng.sample(list(mutants), counts[name])
    return out
