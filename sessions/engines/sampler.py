"""A sampler on transformers: requests of the same weights are answered together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from sessions.engines.adapters import Adapter, Layers
from sessions.engines.base import Base
from sessions.engines.batches import packed, padded
from sessions.engines.prompts import asked, thought
from sessions.engines.requests import checked
from sessions.engines.rows import Row, grow
from sessions.engines.stops import Stops
from sessions.engines.trainer import adapter_of
from sessions.refusals import Refused
from sessions.seam import Sampled, Sampling

__all__ = ["TransformersSampler"]


class TransformersSampler:
    """A `Sampler` on transformers.

    A seed gives the same sequences whatever else is in the batch, up to the last bits of the logits: a batch of another
    size may round them differently, which changes a token about once in a million.

    Args:
        base: folder of the base model and its tokenizer, as `from_pretrained` reads it.
        budget: tokens of one batch, with those to come.
        device: such as `cpu` or `cuda`.
        dtype: of the base; adapters are float32.
    """

    def __init__(
        self, base: Path, *, budget: int = 65536, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        self._base = Base(base, device=device, dtype=dtype)
        self._layers = Layers(self._base)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(base, local_files_only=True)
        self._ends = _ends(self._base.model.generation_config, self._tokenizer)
        self._budget = budget
        self._weights: dict[str, Adapter] = {}

    def load(self, weights: str, folder: Path) -> None:
        """Take an adapter that `Trainer.save` wrote. Raises `Refused`; one of this name stays as it was then."""
        self._weights[weights] = adapter_of(folder, self._layers)

    def unload(self, weights: str) -> None:
        """Forget weights."""
        self._weights.pop(weights, None)

    def sample(self, requests: Sequence[Sampling]) -> Sequence[Sampled | Refused]:
        """Answer each request in its place; a `Refused` in the place of one that cannot be answered."""
        out: list[Sampled | Refused] = [Sampled()] * len(requests)
        groups: dict[str | None, list[tuple[int, Sampling, int, Stops]]] = {}
        for place, request in enumerate(requests):
            try:
                ready = (place, request, *self._ready(request))
            except Refused as refusal:
                out[place] = refusal
            else:
                groups.setdefault(request.weights, []).append(ready)
        for weights, group in groups.items():
            adapter = None if weights is None else self._weights[weights]
            with self._layers.active(adapter), torch.inference_mode():
                for place, answer in self._answers(group):
                    out[place] = answer
        return out

    def _ready(self, request: Sampling) -> tuple[int, Stops]:
        if request.weights is not None and request.weights not in self._weights:
            raise Refused(f"model_path: {request.weights[:80]}: is not loaded: create the sampling client again")
        return checked(request, self._base), Stops(request.stop, self._ends, self._tokenizer)

    def _answers(self, ready: Sequence[tuple[int, Sampling, int, Stops]]) -> list[tuple[int, Sampled]]:
        thoughts = self._thoughts({place: request for place, request, _, _ in ready if asked(request)})
        rows = [
            Row(place, request, most, stops, _generator(request.seed, number))
            for place, request, most, stops in ready
            for number in range(request.count)
        ]
        growing = [row for row in rows if row.most > 0]
        for batch in packed([len(row.request.prompt) + row.most for row in growing], self._budget):
            grow(self._base, [growing[number] for number in batch])
        whole: dict[int, list[Any]] = {}
        for row in rows:
            whole.setdefault(row.place, []).append(row.whole())
        return [
            (place, replace(thoughts.get(place, Sampled()), sequences=tuple(whole.get(place, ()))))
            for place, *_ in ready
        ]

    def _thoughts(self, requests: dict[int, Sampling]) -> dict[int, Sampled]:
        """Look at prompts without a mask, as the trainer does: padding is on the right."""
        out = {}
        places = list(requests)
        for batch in packed([len(requests[place].prompt) for place in places], self._budget):
            prompts = [np.asarray(requests[places[number]].prompt, np.int64) for number in batch]
            logits = self._base.model(padded(prompts, self._base.device), use_cache=False).logits
            for row, number in enumerate(batch):
                place = places[number]
                out[place] = thought(requests[place], logits[row, : len(prompts[row])].float())
        return out


def _ends(config: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end a text: the model's own, and the tokenizer's."""
    given = config.eos_token_id if config is not None else None
    ids = given if isinstance(given, list) else [given]
    return frozenset(each for each in [*ids, tokenizer.eos_token_id] if each is not None)


def _generator(seed: int | None, number: int) -> np.random.Generator:
    return np.random.default_rng() if seed is None else np.random.default_rng([seed % 2**64, number])
