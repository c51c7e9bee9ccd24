"""Which token comes next, row by row: what a row gets does not depend on the rows beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from muster.sessions.seam import Sampling

__all__ = ["next_tokens"]


def next_tokens(logits: Tensor, requests: Sequence[Sampling], chances: Sequence[float]) -> Tensor:
    """Return a token for each row, int64 [rows].

    Args:
        logits: [rows, vocabulary].
        requests: of each row, for its temperature, top-k and top-p.
        chances: of each row, from 0 to below 1: where in the distribution its token lies.
    """
    out = logits.argmax(1)
    for some, filtered in ((_rows(requests, False), False), (_rows(requests, True), True)):
        if some:
            pick = _filtered if filtered else _plain
            chosen = [requests[row] for row in some]
            ahead = logits[some].double()
            below = ahead - ahead.amax(1, keepdim=True)  # first, or a small temperature makes infinities
            scaled = below / _column(logits, [each.temperature for each in chosen])
            out[some] = pick(scaled, chosen, _column(logits, [chances[row] for row in some]))
    return out


def _rows(requests: Sequence[Sampling], filtered: bool) -> list[int]:
    return [
        row
        for row, each in enumerate(requests)
        if each.temperature > 0 and (each.top_k > 0 or each.top_p < 1) == filtered
    ]


def _plain(scaled: Tensor, _requests: Sequence[Sampling], chances: Tensor) -> Tensor:
    return _at(scaled.softmax(1), chances)


def _filtered(scaled: Tensor, requests: Sequence[Sampling], chances: Tensor) -> Tensor:
    """Keep the top-k, and of them the fewest that have top-p together; the likeliest always."""
    values, order = scaled.sort(dim=1, descending=True, stable=True)
    places = torch.arange(values.shape[1], device=values.device)
    most = _column(scaled, [each.top_k if each.top_k > 0 else values.shape[1] for each in requests])
    probabilities = values.masked_fill(places >= most, -torch.inf).softmax(1)
    before = probabilities.cumsum(1) - probabilities
    dropped = before >= _column(scaled, [each.top_p if each.top_p < 1 else np.inf for each in requests])
    dropped[:, 0] = False
    return order.gather(1, _at(probabilities.masked_fill(dropped, 0), chances)[:, None])[:, 0]


def _at(probabilities: Tensor, chances: Tensor) -> Tensor:
    """Return the first place whose cumulated probability is above the chance, never one of probability 0."""
    sums = probabilities.cumsum(1)
    return torch.minimum((sums <= chances * sums[:, -1:]).sum(1), sums.argmax(1))


def _column(like: Tensor, values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=like.device)[:, None]
