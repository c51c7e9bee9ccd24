"""Sequences while they grow, several at a time, over one cache of keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sessions.engines.base import Base
from sessions.engines.batches import padded
from sessions.engines.choice import next_tokens
from sessions.engines.stops import Stops
from sessions.seam import Sampling, Sequence_

__all__ = ["Row", "grow"]


@dataclass(slots=True)
class Row:
    """One sequence.

    Attributes:
        place: of its request.
        request: what it is sampled by.
        most: how many tokens it may have.
        stops: where it ends earlier.
        chances: its own generator, so that it does not depend on the rows beside it.
    """

    place: int
    request: Sampling
    most: int
    stops: Stops
    chances: np.random.Generator
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top: list[tuple[list[int], list[float]]] = field(default_factory=list)
    ended: Literal["stop", "length"] | None = None

    def take(self, token: int, logprob: float) -> None:
        """Append a token, and see whether it is the last."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        if self.stops.reached(self.tokens):
            self.ended = "stop"
        elif len(self.tokens) >= self.most:
            self.ended = "length"

    def whole(self) -> Sequence_:
        """Return it as it is answered."""
        shape = (len(self.tokens), self.request.topk_sampled)
        top = (
            np.array([ids for ids, _ in self.top], np.int64).reshape(shape),
            np.array([values for _, values in self.top], np.float32).reshape(shape),
        )
        return Sequence_(
            np.array(self.tokens, np.int64),
            np.array(self.logprobs, np.float32),
            self.ended or "length",
            top if self.request.topk_sampled > 0 else None,
        )


class _Batch:
    """The rows that still grow, with what their next pass needs. Padding is on the left."""

    def __init__(self, base: Base, rows: list[Row]) -> None:
        self._base = base
        self.rows = rows
        places = sorted({row.place: row for row in rows}.values(), key=lambda row: row.place)
        prompts = [np.asarray(row.request.prompt, np.int64) for row in places]
        lengths = torch.tensor([len(each) for each in prompts], device=base.device)
        ids = padded(prompts, base.device, left=True)
        ahead = torch.arange(ids.shape[1], device=base.device) - (ids.shape[1] - lengths[:, None])
        self._mask, self._cache, self._next = (ahead >= 0).long(), None, lengths
        self.logits = self._pass(ids, ahead.clamp(min=0))
        of = {row.place: number for number, row in enumerate(places)}
        self._keep([of[row.place] for row in rows])

    def go_on(self, tokens: Tensor) -> None:
        """Feed a token to each row that has not ended, and forget the others."""
        alive = [number for number, row in enumerate(self.rows) if row.ended is None]
        if len(alive) < len(self.rows):
            self._keep(alive)
            self.rows = [self.rows[number] for number in alive]
        if self.rows:
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=1)
            self.logits = self._pass(tokens[alive][:, None], self._next[:, None])
            self._next = self._next + 1

    def _pass(self, ids: Tensor, positions: Tensor) -> Tensor:
        out = self._base.model(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self._cache = out.past_key_values
        logits: Tensor = out.logits[:, -1].float()
        return logits

    def _keep(self, numbers: Sequence[int]) -> None:
        chosen = torch.tensor(numbers, dtype=torch.int64, device=self._base.device)
        cache: Any = self._cache
        cache.batch_select_indices(chosen)
        self._mask, self._next, self.logits = self._mask[chosen], self._next[chosen], self.logits[chosen]


def grow(base: Base, rows: Sequence[Row]) -> None:
    """Sample rows to their ends, in place."""
    batch = _Batch(base, list(rows))
    while batch.rows:
        tokens = next_tokens(
            batch.logits, [row.request for row in batch.rows], [float(row.chances.random()) for row in batch.rows]
        )
        _told(batch.rows, batch.logits, tokens)
        batch.go_on(tokens)


def _told(rows: Sequence[Row], logits: Tensor, tokens: Tensor) -> None:
    """Give each row its token with the log-probability of the untempered model."""
    norm = logits.logsumexp(1, keepdim=True)
    logprobs = (logits.gather(1, tokens[:, None]) - norm)[:, 0].tolist()
    most = max(row.request.topk_sampled for row in rows)
    top = (logits - norm).topk(most, dim=1) if most else None
    for number, (row, token) in enumerate(zip(rows, tokens.tolist(), strict=True)):
        if top is not None:
            k = row.request.topk_sampled
            row.top.append((top.indices[number, :k].tolist(), top.values[number, :k].tolist()))
        row.take(token, logprobs[number])
