"""How long a trainer takes to send weights to its sampler, by whatever way they travel.

Source: trl 1.16.0, `VLLMGeneration.sync_weights` and `AsyncGRPOTrainer._sync_weight`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from muster_telemetry import measures

__all__ = ["Syncs", "watch_async_trainer", "watch_generation"]


class Syncs:
    """The times at which weights were sent.

    Attributes:
        count: how many.
        total: seconds of all.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._recent: list[float] = []
        self._owner: Any = None

    def sent(self, owner: Any, seconds: float) -> None:
        """Count one; the owner is TRL's object that sent the weights."""
        self.count, self.total, self._owner = self.count + 1, self.total + seconds, owner
        self._recent.append(seconds)

    def taken(self) -> float | None:
        """Return the mean seconds of those since the last call; None where there was none."""
        recent, self._recent = self._recent, []
        return sum(recent) / len(recent) if recent else None

    @property
    def difference(self) -> float | None:
        """What the probe of weights by files found last (`muster_weights.trainer.probes`), where there is one."""
        return measures.number(getattr(getattr(self._owner, "muster_probe", None), "last", None))


current = Syncs()
"""Those of this process, which has one training."""


def watch_generation(module: Any) -> None:
    """Time each sync of `trl.generation.vllm_generation.VLLMGeneration` with a server."""
    _timed(module.VLLMGeneration, "sync_weights", lambda owner: getattr(owner, "mode", "") == "server")


def watch_async_trainer(module: Any) -> None:
    """Time each sync of TRL's AsyncGRPOTrainer."""
    _timed(module.AsyncGRPOTrainer, "_sync_weight", lambda _: True)


def _timed(kind: Any, name: str, counts: Callable[[Any], bool]) -> None:
    wrapped = getattr(kind, name)

    @functools.wraps(wrapped)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        result = wrapped(self, *args, **kwargs)
        if counts(self):
            current.sent(self, time.monotonic() - began)
        return result

    setattr(kind, name, wrapper)
