"""One sequence while it grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from muster.sessions.engines.adapters import Adapter
from muster.sessions.engines.stops import Stops
from muster.sessions.seam import Sampling, Sequence_

__all__ = ["Row"]


@dataclass(slots=True)
class Row:
    """One sequence.

    Attributes:
        ticket: of its request.
        request: what it is sampled by.
        most: how many tokens it may have.
        stops: where it ends earlier.
        adapter: what it is sampled from; None is the base.
        chances: its own generator, so that it does not depend on the rows beside it.
    """

    ticket: int
    request: Sampling
    most: int
    stops: Stops
    adapter: Adapter | None = None
    chances: np.random.Generator = field(default_factory=np.random.default_rng)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top: list[tuple[list[int], list[float]]] = field(default_factory=list)
    ended: Literal["stop", "length"] | None = None

    @property
    def length(self) -> int:
        """How many tokens it may have with its prompt."""
        return len(self.request.prompt) + self.most

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
