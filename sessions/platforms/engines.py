"""What a Gateway knows of the place where its engines run."""

from __future__ import annotations

import asyncio
from typing import Protocol

from muster.sessions.engines.client import Engine

__all__ = ["Pair", "Running"]


class Running(Protocol):
    """One engine that is always there, or on its way.

    Attributes:
        name: `trainer` or `sampler`.
        refused: is set when it cannot be made of what was given, unless it was made of that before.
        refusal: why, in one sentence.
    """

    name: str
    refused: asyncio.Event
    refusal: str

    @property
    def engine(self) -> Engine:
        """What it is asked by at the moment."""

    @property
    def is_up(self) -> bool:
        """Whether it answers at the moment."""

    @property
    def waits_for(self) -> str:
        """Why it does not answer or compute at the moment, for whoever waits; empty where it does both."""

    @property
    def absence(self) -> str:
        """The same in one word of `muster.sessions.metrics.ABSENCES`; empty while it answers or is not wanted."""

    async def ready(self) -> str:
        """Wait until it answers, and return which instance does."""

    async def after(self, instance: str) -> None:
        """Wait until an instance that was lost has answered again, or has been followed by another."""


class Pair(Protocol):
    """The engines of a Gateway: one trainer and one sampler, for all models and tenants."""

    @property
    def trainer(self) -> Running:
        """What trains."""

    @property
    def sampler(self) -> Running:
        """What samples."""

    async def start(self) -> None:
        """Have them come, for the first time or after `close`."""

    async def close(self) -> None:
        """Have them end."""
