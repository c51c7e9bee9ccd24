"""A batch of prompts for a sampler that takes them one by one, and the other way about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from muster.sessions.refusals import Refused
from muster.sessions.seam import Continuous, Sampled, Sampler, Sampling

__all__ = ["Batchwise", "answered"]

_BATCH = 64  # prompts at a time


def answered(sampler: Continuous, requests: Sequence[Sampling]) -> list[Sampled | Refused]:
    """Return the answer to each request in its place, from a sampler that does nothing else."""
    answers: dict[int, Sampled | Refused] = {}
    for ticket, request in enumerate(requests):
        try:
            sampler.begin(ticket, request)
        except Refused as refusal:
            answers[ticket] = refusal
    while len(answers) < len(requests):
        answers.update(sampler.advance())
    return [answers[ticket] for ticket in range(len(requests))]


class Batchwise:
    """A `Continuous` sampler made of one that answers batches: what has begun is answered together."""

    slots = 8

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._begun: dict[int, Sampling] = {}

    def load(self, weights: str, folder: Path) -> None:
        """Take weights."""
        self._sampler.load(weights, folder)

    def unload(self, weights: str) -> None:
        """Forget weights."""
        self._sampler.unload(weights)

    def sample(self, requests: Sequence[Sampling]) -> Sequence[Sampled | Refused]:
        """Answer each request in its place."""
        return self._sampler.sample(requests)

    def begin(self, ticket: int, request: Sampling) -> None:
        """Have a request answered by the next `advance`, or one after it."""
        self._begun[ticket] = request

    def advance(self) -> Mapping[int, Sampled | Refused]:
        """Answer a batch of what has begun first."""
        tickets = list(islice(self._begun, _BATCH))
        try:
            answers = self._sampler.sample([self._begun[ticket] for ticket in tickets]) if tickets else []
        except Exception:
            self._begun.clear()
            raise
        for ticket in tickets:
            del self._begun[ticket]
        return dict(zip(tickets, answers, strict=True))

    def abandon(self, ticket: int) -> None:
        """Forget a request."""
        self._begun.pop(ticket, None)
