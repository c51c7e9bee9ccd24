"""A sampler on transformers, which answers prompts together: those that come join the others between two tokens."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from muster.sessions.engines.adapters import Adapter, Layers
from muster.sessions.engines.base import Base, prepare
from muster.sessions.engines.batches import packed, padded
from muster.sessions.engines.growing import Batch, by_adapter, computing
from muster.sessions.engines.prompts import Thoughts, asked
from muster.sessions.engines.requests import checked
from muster.sessions.engines.rows import Row
from muster.sessions.engines.shelf import Shelf, weights_of
from muster.sessions.engines.stops import Stops, ends_of
from muster.sessions.engines.tickets import answered
from muster.sessions.engines.trainer import adapter_of
from muster.sessions.refusals import Refused
from muster.sessions.seam import Sampled, Sampling

__all__ = ["TransformersSampler"]


@dataclass(slots=True)
class _Open:
    """A request that is not answered yet; `thought` is what was asked of its prompt, None until it is known."""

    request: Sampling
    adapter: Adapter | None
    rows: Sequence[Row] = ()
    thought: Sampled | None = field(default_factory=Sampled)

    @property
    def is_whole(self) -> bool:
        return self.thought is not None and all(row.ended is not None for row in self.rows)


class TransformersSampler:
    """A `Continuous` sampler on transformers.

    A seed gives the same sequences whatever else is in the batch, up to the last bits of the logits: a batch of another
    size may round them differently, which changes a token about once in a million.

    Args:
        base: folder of the base model and its tokenizer, as `from_pretrained` reads it.
        budget: tokens of one batch, with those to come and padding; what is over it waits.
        device: such as `cpu` or `cuda`.
        dtype: of the base; adapters are float32.
    """

    slots = 8
    prepare = staticmethod(prepare)

    def __init__(
        self, base: Path, *, budget: int = 65536, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        self._base = Base(base, device=device, dtype=dtype)
        self._layers = Layers(self._base)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(base, local_files_only=True)
        self._ends = ends_of(self._base.model.generation_config, self._tokenizer)
        self._budget = budget
        self._weights: dict[str, Adapter] = {}
        self._open: dict[int, _Open] = {}
        self._unthought: deque[int] = deque()
        self._waiting: deque[Row] = deque()
        self._batches: list[Batch] = []
        self._shelf = Shelf()

    @property
    def model(self) -> Any:
        """The base, of transformers."""
        return self._base.model

    def load(self, weights: str, folder: Path) -> None:
        """Take an adapter that `Trainer.save` wrote. Raises `Refused`; one of this name stays as it was then."""
        self._weights[weights] = adapter_of(folder, self._layers)

    def unload(self, weights: str) -> None:
        """Forget weights; what has begun with them goes on."""
        self._weights.pop(weights, None)

    def sample(self, requests: Sequence[Sampling]) -> Sequence[Sampled | Refused]:
        """Answer each request in its place; a `Refused` in the place of one that cannot be answered."""
        return answered(self, requests)

    def begin(self, ticket: int, request: Sampling) -> None:
        """Take a request. Raises `Refused`."""
        if request.weights is not None and request.weights not in self._weights:
            raise Refused(f"model_path: {request.weights[:80]}: is not loaded: create the sampling client again")
        most = checked(request, self._base)
        stops = Stops(request.stop, self._ends, self._tokenizer)
        opened = _Open(request, None if request.weights is None else self._weights[request.weights])
        opened.rows = [
            Row(ticket, request, most, stops, opened.adapter, _generator(request.seed, number))
            for number in range(request.count)
        ]
        self._open[ticket] = opened
        if asked(request):
            opened.thought = None
            self._unthought.append(ticket)
        for row in opened.rows:
            if most > 0:
                self._waiting.append(row)
            else:
                row.ended = "length"

    def advance(self) -> Mapping[int, Sampled | Refused]:
        """Let what waits join, and give each sequence a token. After a fault all that had begun is forgotten."""
        try:
            with torch.inference_mode():
                self._think()
                self._start()
                for batch in self._batches:
                    batch.advance()
        except Exception:
            self._forget()
            raise
        self._batches = [batch for batch in self._batches if batch.rows]
        whole = [ticket for ticket, each in self._open.items() if each.is_whole]
        return {ticket: _answer(self._open.pop(ticket)) for ticket in whole}

    def abandon(self, ticket: int) -> None:
        """Forget a request."""
        opened = self._open.pop(ticket, None)
        for row in opened.rows if opened else ():
            row.ended = "length"

    def away(self) -> None:
        """Move base, adapters and the caches of what has begun to the host."""
        adapters = {id(each): each for each in (*self._weights.values(), *(one.adapter for one in self._open.values()))}
        live = [tensor for each in adapters.values() if each for tensor in each.named().values()]
        for batch in self._batches:
            live += batch.tensors()
        self._shelf.away(weights_of(self._base.model), live)

    def back(self) -> None:
        """Have all of it on the device again."""
        self._shelf.back()
        self._shelf.own(weights_of(self._base.model))

    def _forget(self) -> None:
        self._open.clear()
        self._unthought.clear()
        self._waiting.clear()
        self._batches = []

    def _start(self) -> None:
        """Take as many rows as fit beside those that grow, in the order in which they came; one alone always fits."""
        growing = [row for batch in self._batches for row in batch.rows if row.ended is None]
        longest = max((row.length for row in growing), default=0)
        new: list[Row] = []
        while self._waiting:
            row = self._waiting[0]
            longest = max(longest, row.length)
            if (growing or new) and (len(growing) + len(new) + 1) * longest > self._budget:
                break
            self._waiting.popleft()
            if row.ended is None:
                new.append(row)
        for rows in self._prefills(new):
            self._admit(Batch(self._base, self._layers, rows))

    def _prefills(self, rows: Sequence[Row]) -> list[list[Row]]:
        """Divide rows so that prompts of one pass are of about one length; those of one prompt stay together."""
        of: dict[int, list[Row]] = {}
        for row in rows:
            of.setdefault(row.ticket, []).append(row)
        prompts = list(of.values())
        passes = packed([len(each[0].request.prompt) for each in prompts], self._budget)
        return [[row for number in numbers for row in prompts[number]] for numbers in passes]

    def _admit(self, batch: Batch) -> None:
        if self._batches and batch.can_be_joined:
            self._batches[0].join(batch)
        else:
            self._batches.append(batch)

    def _think(self) -> None:
        """Look at some prompts without a mask, as the trainer does: padding is on the right."""
        some: list[tuple[_Open, int]] = []
        longest = 0
        while self._unthought:
            opened = self._open.get(self._unthought[0])
            longest = max(longest, 0 if opened is None else len(opened.request.prompt))
            if some and (len(some) + 1) * longest > self._budget:
                break
            ticket = self._unthought.popleft()
            if opened is not None:
                some.append((opened, ticket))
        if some:
            self._look([each for each, _ in some])

    def _look(self, some: Sequence[_Open]) -> None:
        chosen = [some[place] for place in by_adapter([each.adapter for each in some])]
        prompts = [np.asarray(each.request.prompt, np.int64) for each in chosen]
        with computing(self._layers, [each.adapter for each in chosen]):
            logits = self._base.model(padded(prompts, self._base.device), use_cache=False).logits
        for row, each in enumerate(chosen):
            thoughts = Thoughts(each.request)
            thoughts.add(0, logits[row].float())
            each.thought = thoughts.whole()


def _answer(opened: _Open) -> Sampled | Refused:
    thought = opened.thought or Sampled()
    if not _are_numbers(opened, thought):
        return Refused("model_path: the logits of these weights are not numbers: sample from an earlier checkpoint")
    return replace(thought, sequences=tuple(row.whole() for row in opened.rows))


def _are_numbers(opened: _Open, thought: Sampled) -> bool:
    """Tell whether what was computed is, also where weights are so large that logits overflow."""
    of_rows = all(math.isfinite(each) for row in opened.rows for each in row.logprobs)
    own, targets = thought.prompt_logprobs, thought.targets
    known = own is None or len(own) < 2 or not math.isnan(own[-1])
    return of_rows and known and (targets is None or not bool(np.isnan(targets).any()))


def _generator(seed: int | None, number: int) -> np.random.Generator:
    return np.random.default_rng() if seed is None else np.random.default_rng([seed % 2**64, number])
