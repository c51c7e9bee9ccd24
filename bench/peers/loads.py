"""What the load generator (`binaries/ours/load`) tells."""

from __future__ import annotations

import json
from dataclasses import dataclass

from bench import figures

__all__ = ["Load", "parse"]


@dataclass(frozen=True, slots=True)
class Load:
    """The answers to one load.

    Attributes:
        seconds: from the first request to the last answer.
        latencies: of each answer, in milliseconds.
    """

    seconds: float
    latencies: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds

    def at(self, share: float) -> float:
        """Return the latency that a share of the answers did not exceed, in ms."""
        return figures.percentile(self.latencies, share)


def parse(text: str) -> Load:
    """Read its one line of JSON, whose latencies are in microseconds.

    Raises:
        ValueError: there is no answer in it.
    """
    told = json.loads(text)
    if not told["latencies"]:
        raise ValueError("the load generator had no answer")
    return Load(told["seconds"], tuple(each / 1000 for each in told["latencies"]))
