"""Sequences of different lengths in few passes, without more padding than needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["packed", "padded"]


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


def padded(rows: Sequence[NDArray[np.int64]], device: torch.device, *, left: bool = False) -> Tensor:
    """Return [rows, longest], 0 where a row has ended, or where it has not begun with `left`."""
    out = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for place, row in enumerate(rows):
        out[place, slice(-len(row), None) if left else slice(len(row))] = row
    return torch.from_numpy(out).to(device)
