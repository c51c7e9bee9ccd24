"""Sequences that grow together over one cache of keys and values; others join them between two tokens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import DynamicLayer

from muster.sessions.engines.adapters import Adapter, Bundle, Layers
from muster.sessions.engines.base import Base
from muster.sessions.engines.batches import padded
from muster.sessions.engines.choice import next_tokens
from muster.sessions.engines.rows import Row
from muster.sessions.seam import Lora

__all__ = ["Batch", "by_adapter", "computing"]

_PLAIN = Adapter(Lora(rank=1), {})
"""Changes no layer: rows of the base beside rows with adapters."""


def by_adapter(rows: Sequence[Adapter | None]) -> list[int]:
    """Return the places of rows so that those of one adapter are neighbours, and stay in their order."""
    first: dict[int, int] = {}
    for place, adapter in enumerate(rows):
        first.setdefault(id(adapter), place)
    return sorted(range(len(rows)), key=lambda place: first[id(rows[place])])


def computing(layers: Layers, rows: Sequence[Adapter | None]) -> AbstractContextManager[None]:
    """Compute inside the block with the adapter of each row; those of one adapter are neighbours."""
    groups = [list(group) for _, group in groupby(rows, key=id)]
    if len(groups) == 1:
        return layers.active(groups[0][0])
    return layers.shared([Bundle.of([_PLAIN if group[0] is None else group[0]], len(group)) for group in groups])


class Batch:
    """Rows that grow, with what their next pass needs. Padding is on the left.

    Args:
        base: what they are sampled from.
        layers: of the base.
        rows: at least one, none of which has a token.
    """

    def __init__(self, base: Base, layers: Layers, rows: Sequence[Row]) -> None:
        self._base, self._layers = base, layers
        prompts = list({row.ticket: row for row in rows}.values())
        prompts = [prompts[place] for place in by_adapter([row.adapter for row in prompts])]
        texts = [np.asarray(row.request.prompt, np.int64) for row in prompts]
        lengths = torch.tensor([len(each) for each in texts], device=base.device)
        ids = padded(texts, base.device, left=True)
        ahead = torch.arange(ids.shape[1], device=base.device) - (ids.shape[1] - lengths[:, None])
        self._mask, self._next = (ahead >= 0).long(), lengths
        self._cache: Any = None
        self.rows = prompts
        self._logits = self._pass(ids, ahead.clamp(min=0))
        of = {row.ticket: number for number, row in enumerate(prompts)}
        self.rows = sorted(rows, key=lambda row: of[row.ticket])
        self._keep([of[row.ticket] for row in self.rows])

    @property
    def can_be_joined(self) -> bool:
        """Whether its cache is nothing but a key and a value for each token, so that padding can be put before them."""
        return all(type(layer) is DynamicLayer for layer in self._cache.layers)

    def tensors(self) -> list[Tensor]:
        """Return all that it holds, for whoever moves its memory."""
        layers = [each for layer in self._cache.layers for each in vars(layer).values() if isinstance(each, Tensor)]
        return [self._mask, self._next, self._logits, *layers]

    def join(self, other: Batch) -> None:
        """Take the rows of another batch in."""
        width = max(self._mask.shape[1], other._mask.shape[1])
        for layer, beside in zip(self._cache.layers, other._cache.layers, strict=True):
            layer.keys = torch.cat([_wider(layer.keys, width), _wider(beside.keys, width)])
            layer.values = torch.cat([_wider(layer.values, width), _wider(beside.values, width)])
        self._mask = torch.cat([pad(each, (width - each.shape[1], 0)) for each in (self._mask, other._mask)])
        self._next = torch.cat([self._next, other._next])
        self._logits = torch.cat([self._logits, other._logits])
        rows = [*self.rows, *other.rows]
        order = by_adapter([row.adapter for row in rows])
        self.rows = [rows[place] for place in order]
        self._keep(order)

    def advance(self) -> None:
        """Give each row its next token, and forget those that have ended."""
        self._let_go([number for number, row in enumerate(self.rows) if row.ended is None])
        if not self.rows:
            return
        chances = [float(row.chances.random()) for row in self.rows]
        tokens = next_tokens(self._logits, [row.request for row in self.rows], chances)
        _told(self.rows, self._logits, tokens)
        alive = [number for number, row in enumerate(self.rows) if row.ended is None]
        self._let_go(alive)
        if self.rows:
            self._mask = pad(self._mask, (0, 1), value=1)
            self._logits = self._pass(tokens[alive][:, None], self._next[:, None])
            self._next = self._next + 1

    def _pass(self, ids: Tensor, positions: Tensor) -> Tensor:
        with computing(self._layers, [row.adapter for row in self.rows]):
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

    def _let_go(self, alive: Sequence[int]) -> None:
        if len(alive) == len(self.rows):
            return
        self.rows = [self.rows[number] for number in alive]
        if self.rows:
            self._keep(alive)
            self._narrow()

    def _keep(self, numbers: Sequence[int]) -> None:
        if list(numbers) == list(range(len(self._mask))):
            return
        chosen = torch.tensor(numbers, dtype=torch.int64, device=self._base.device)
        self._cache.batch_select_indices(chosen)
        self._mask, self._next, self._logits = self._mask[chosen], self._next[chosen], self._logits[chosen]

    def _narrow(self) -> None:
        """Drop columns that are padding in every row: the longest row has left."""
        empty = self._mask.shape[1] - int(self._mask.sum(1).max())
        if empty and self.can_be_joined:
            self._mask = self._mask[:, empty:]
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[..., empty:, :], layer.values[..., empty:, :]


def _wider(tensor: Tensor, width: int) -> Tensor:
    return pad(tensor, (0, 0, width - tensor.shape[-2], 0))


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
