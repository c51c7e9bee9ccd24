"""Sequences of different lengths in few passes, without more padding than needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["dealt", "packed", "padded"]


def packed(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Divide sequences, by their places, into passes of at most `budget` tokens with padding; one may be longer.

    The shortest come first, so neighbours are of nearly one length; the answer depends on the lengths alone.
    """
    passes: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda each: lengths[each]):
        if passes and (len(passes[-1]) + 1) * lengths[place] <= budget:
            passes[-1].append(place)
        else:
            passes.append([place])
    return passes


def dealt(lengths: Sequence[Sequence[int]], budget: int) -> list[list[tuple[int, list[int]]]]:
    """Divide the sequences of several owners into passes of at most `budget` tokens with padding; one may be longer.

    Each owner gives the same number to a pass, as long as it has so many, the shortest first. One owner alone gets the
    passes that `packed` gives.

    Returns:
        For each pass, who takes part in it with which of its places.
    """
    left = [sorted(range(len(each)), key=each.__getitem__) for each in lengths]
    passes = []
    while owners := [owner for owner, each in enumerate(left) if each]:
        longest = max(lengths[owner][left[owner][0]] for owner in owners)
        owners = owners[: max(1, budget // longest)]
        count = _count([[lengths[owner][place] for place in left[owner]] for owner in owners], budget)
        passes.append([(owner, left[owner][:count]) for owner in owners])
        for owner in owners:
            left[owner] = left[owner][count:]
    return passes


def _count(lengths: Sequence[Sequence[int]], budget: int) -> int:
    """Return how many of each owner, ascending, fit into one pass."""
    most = max(map(len, lengths))
    for count in range(2, most + 1):
        longest = max(each[min(count, len(each)) - 1] for each in lengths)
        if longest * sum(min(count, len(each)) for each in lengths) > budget:
            return count - 1
    return most


def padded(rows: Sequence[NDArray[np.int64]], device: torch.device, *, left: bool = False) -> Tensor:
    """Return [rows, longest], 0 where a row has ended, or where it has not begun with `left`."""
    out = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for place, row in enumerate(rows):
        out[place, slice(-len(row), None) if left else slice(len(row))] = row
    return torch.from_numpy(out).to(device)
