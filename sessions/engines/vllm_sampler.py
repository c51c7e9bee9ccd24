"""A sampler on vLLM, whose adapters come and go while it runs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import transformers

from muster.sessions.engines.adapters import ALPHA, Layers
from muster.sessions.engines.outline import Outline
from muster.sessions.engines.prompts import Thoughts, asked
from muster.sessions.engines.requests import checked
from muster.sessions.engines.rows import Row
from muster.sessions.engines.stops import Stops, ends_of
from muster.sessions.engines.tickets import answered
from muster.sessions.engines.trainer import ADAPTER, CONFIG, adapter_of
from muster.sessions.engines.vllm_engine import Engine
from muster.sessions.refusals import Refused
from muster.sessions.seam import BrokenError, Lora, Sampled, Sampling
from muster.sessions.weights import tensors

__all__ = ["VllmSampler"]

_COLDEST, _HOTTEST = 0.01, 2.0
"""What vLLM 0.31 samples at beside 0 (sampling_params.py); it would take a lower temperature as the first of these."""
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
_ZERO = Lora(rank=1, seed=0, train_mlp=False, train_unembed=False)


@dataclass(slots=True)
class _Open:
    """A request that is not answered yet; `left` are the names of what vLLM still does for it."""

    request: Sampling
    rows: list[Row] = field(default_factory=list)
    thoughts: Thoughts | None = None
    left: set[str] = field(default_factory=set)


class VllmSampler:
    """A `Continuous` sampler on vLLM 0.31, on one GPU or, for tests, on CPUs.

    The base is sampled through an adapter of zeros: where adapters are in use, vLLM for CPUs answers prompts of the
    bare base with tokens of other prompts.

    Args:
        base: folder of the base model and its tokenizer, as `from_pretrained` reads it.
        slots: how many weights it holds beside the base.
        rank: the highest of an adapter; memory for it is taken in each slot.
        memory: share of the GPU that weights and cache may take, for the trainer may need the rest.
        cache: GiB of keys and values, instead of what `memory` leaves; 1 on CPUs.
    """

    def __init__(
        self, base: Path, *, slots: int = 8, rank: int = 64, memory: float = 0.45, cache: float | None = None
    ) -> None:
        if rank not in _RANKS:
            raise Refused(f"rank: {rank}: vLLM has slots of {', '.join(map(str, _RANKS))}: pass one of these")
        self.slots, self._rank = slots, rank
        self._outline = Outline(base)
        self._layers = Layers(self._outline)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(base, local_files_only=True)
        self._ends = ends_of(self._outline.generation, self._tokenizer)
        self._engine = Engine(
            base, slots=slots + 1, rank=rank, context=self._outline.context, memory=memory, cache=cache
        )
        self._names = count()
        self._open: dict[int, _Open] = {}
        self._of: dict[str, tuple[int, Row | None]] = {}
        self._temporary = tempfile.TemporaryDirectory(prefix="muster-zero-")
        self._adapters: dict[str | None, Any] = {None: self._engine.add(self._zero())}

    def load(self, weights: str, folder: Path) -> None:
        """Take an adapter that `Trainer.save` wrote. Raises `Refused`; one of this name stays as it was then."""
        adapter = adapter_of(folder, self._layers)
        if adapter.lora.rank > self._rank:
            raise Refused(f"weights: {folder.name}: rank {adapter.lora.rank}: this sampler has slots of {self._rank}")
        if weights not in self._adapters and len(self._adapters) > self.slots:
            raise Refused(f"weights: {folder.name}: all {self.slots} slots are in use: end a sampling session")
        try:
            new = self._engine.add(folder)
        except ValueError as fault:
            raise Refused(f"weights: {folder.name}: vLLM does not take them: {str(fault)[:300]}") from fault
        self.unload(weights)
        self._adapters[weights] = new

    def unload(self, weights: str) -> None:
        """Forget weights, which nothing that has begun uses."""
        if (old := self._adapters.pop(weights, None)) is not None:
            self._engine.remove(old)

    def sample(self, requests: Sequence[Sampling]) -> Sequence[Sampled | Refused]:
        """Answer each request in its place; a `Refused` in the place of one that cannot be answered."""
        return answered(self, requests)

    def begin(self, ticket: int, request: Sampling) -> None:
        """Take a request. Raises `Refused`, also for what vLLM cannot honour."""
        if request.weights not in self._adapters:
            raise Refused(f"model_path: {str(request.weights)[:80]}: is not loaded: create the sampling client again")
        most, stops = checked(request, self._outline), Stops(request.stop, self._ends, self._tokenizer)
        if request.temperature != 0 and not _COLDEST <= request.temperature <= _HOTTEST:
            text = f"this sampler has 0 for greedy, and {_COLDEST} to {_HOTTEST}: pass one of these"
            raise Refused(f"sampling_params.temperature: {request.temperature}: {text}")
        self._open[ticket] = _Open(request, [Row(ticket, request, most, stops) for _ in range(request.count)])
        try:
            self._send(ticket, self._open[ticket])
        except ValueError as fault:
            self.abandon(ticket)
            raise Refused(f"sampling_params: vLLM does not take them: {str(fault)[:300]}") from fault

    def advance(self) -> Mapping[int, Sampled | Refused]:
        """Have vLLM compute a step. Raises `BrokenError` when it fails at that."""
        for output in self._step() if self._of else ():
            self._take(output)
        whole = [ticket for ticket, each in self._open.items() if not each.left]
        return {ticket: _answer(self._open.pop(ticket)) for ticket in whole}

    def abandon(self, ticket: int) -> None:
        """Forget a request."""
        if (opened := self._open.pop(ticket, None)) is not None:
            self._engine.abort(sorted(opened.left))
            for name in opened.left:
                self._of.pop(name, None)

    def _send(self, ticket: int, opened: _Open) -> None:
        request, adapter = opened.request, self._adapters[opened.request.weights]
        if asked(request):
            opened.thoughts = Thoughts(request)
            if len(request.prompt) > 1:
                self._engine.score(self._named(ticket, None), request.prompt, adapter, opened.thoughts.add)
        for number, row in enumerate(opened.rows if opened.rows and opened.rows[0].most > 0 else ()):
            self._engine.send(
                self._named(ticket, row),
                request.prompt,
                adapter,
                each_token=row.stops.has_texts,
                seed=None if request.seed is None else _seed(request.seed, number),
                **self._params(row),
            )

    def _params(self, row: Row) -> dict[str, Any]:
        request, vocabulary = row.request, self._outline.vocabulary
        return {
            "max_tokens": row.most,
            "temperature": request.temperature,
            "top_k": min(request.top_k, vocabulary),
            "top_p": request.top_p,
            "logprobs": request.topk_sampled,
            "stop_token_ids": sorted(each for each in row.stops.ids if 0 <= each < vocabulary),
        }

    def _named(self, ticket: int, row: Row | None) -> str:
        name = str(next(self._names))
        self._of[name] = (ticket, row)
        self._open[ticket].left.add(name)
        return name

    def _step(self) -> list[Any]:
        try:
            return self._engine.step()
        except Exception as fault:
            raise BrokenError(f"vLLM failed at a step: {type(fault).__name__}: {str(fault)[:300]}") from fault

    def _take(self, output: Any) -> None:
        if output.request_id not in self._of:
            return
        ticket, row = self._of[output.request_id]
        (found,) = output.outputs
        if found.finish_reason in {"abort", "error"}:
            raise BrokenError(f"vLLM gave a sequence up: {found.finish_reason}")
        if row is not None:
            _fill(row, found.token_ids, found.logprobs)
        if output.finished or (row is not None and row.ended is not None):
            if not output.finished:
                self._engine.abort([output.request_id])
            del self._of[output.request_id]
            self._open[ticket].left.remove(output.request_id)

    def _zero(self) -> Path:
        """Write the adapter that changes nothing."""
        folder = Path(self._temporary.name) / "zero"
        adapter = self._layers.fresh(_ZERO, 0)
        about = {"kind": "lora", "base": self._outline.name, "alpha": ALPHA, "lora": asdict(_ZERO)}
        config = json.dumps(self._layers.config(_ZERO, self._outline.name))
        tensors.publish(folder, {ADAPTER: adapter.named()}, {CONFIG: config}, about)
        return folder


def _fill(row: Row, tokens: Sequence[int], logprobs: Sequence[Mapping[int, Any]]) -> None:
    k = row.request.topk_sampled
    for token, each in zip(tokens, logprobs, strict=True):
        if row.ended is None:
            if k > 0:
                top = sorted(each.items(), key=lambda item: item[1].rank)[:k]
                row.top.append(([id_ for id_, _ in top], [found.logprob for _, found in top]))
            row.take(token, each[token].logprob)


def _answer(opened: _Open) -> Sampled:
    thought = Sampled() if opened.thoughts is None else opened.thoughts.whole()
    return replace(thought, sequences=tuple(row.whole() for row in opened.rows))


def _seed(seed: int, number: int) -> int:
    """Return a seed of one sequence: vLLM adds the number to the seed, so that neighbours would share sequences."""
    return int(np.random.SeedSequence([seed % 2**64, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))
