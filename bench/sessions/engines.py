"""Engines that do nothing, so that what is left is the Gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from muster.sessions.seam import Adam, Lora, Outputs, Sampled, Sampling, Sequence_, Step

__all__ = ["Sampler", "Trainer"]


class Trainer:
    """Answers each pass with zeros."""

    def __init__(self, _base: Path) -> None:
        """Take no base."""

    def create(self, model: str, lora: Lora) -> None:
        """Do nothing."""

    def step(self, _model: str, step: Step) -> Outputs:
        """Return zeros of the shape of the targets."""
        return Outputs([np.zeros(len(each.tokens), np.float32) for each in step.data], {"loss:sum": 0.0})

    def optim(self, _model: str, _params: Adam) -> Mapping[str, float]:
        """Do nothing."""
        return {"grad_norm:mean": 0.0}

    def save(self, _model: str, folder: Path, *, optimizer: bool) -> None:  # noqa: ARG002  # as the seam has it
        """Make an empty folder."""
        folder.mkdir(parents=True, exist_ok=True)

    def load(self, model: str, folder: Path, *, optimizer: bool) -> None:
        """Do nothing."""

    def unload(self, model: str) -> None:
        """Do nothing."""


class Sampler:
    """Answers each prompt with one token."""

    def __init__(self, _base: Path) -> None:
        """Take no base."""

    def load(self, weights: str, folder: Path) -> None:
        """Do nothing."""

    def unload(self, weights: str) -> None:
        """Do nothing."""

    def sample(self, requests: Sequence[Sampling]) -> Sequence[Sampled]:
        """Return one token for each sequence."""
        one = Sequence_(np.zeros(1, np.int64), np.zeros(1, np.float32), "length")
        return [Sampled((one,) * each.count) for each in requests]
