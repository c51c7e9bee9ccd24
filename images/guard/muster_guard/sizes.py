"""The number of ranks that a training should have, by its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Expected", "expected"]

_MUSTER = "MUSTER_EXPECTED_WORLD_SIZE"
_NODES, _PROCESSES = "PET_NNODES", "PET_NPROC_PER_NODE"


@dataclass(frozen=True, slots=True)
class Expected:
    """The world sizes that are right.

    Attributes:
        low: the smallest of them.
        high: the largest of them; None for no limit.
        step: each of them is a multiple of it.
        source: the environment variables that say so, as text.
        sure: whether a training of another size is wrong; otherwise it may only be unusual.
    """

    low: int
    high: int | None
    step: int
    source: str
    sure: bool = True

    def holds(self, size: int) -> bool:
        """Whether a training of this world size is right."""
        return self.low <= size and (self.high is None or size <= self.high) and size % self.step == 0

    def __str__(self) -> str:
        if self.high == self.low:
            return str(self.low)
        return f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"


def expected(environment: Mapping[str, str] = os.environ) -> Expected | None:
    """Return the sizes from Muster's variable or, without it, from Kubeflow Trainer's; None when neither is set.

    Trainer sets PET_NPROC_PER_NODE to the devices of a node, whatever the program is. On one node a single process may
    use them all (DataParallel, `device_map`), so there the number is `sure` only if a launcher made the ranks.

    Source: trainer/v2 pkg/runtime/framework/plugins/torch/torch.go; torch/distributed/run.py for the forms.
    """
    asked = environment.get(_MUSTER, "")
    if asked.isdigit() and int(asked) > 0:
        return Expected(int(asked), int(asked), 1, f"{_MUSTER}={asked}")
    nodes = _range(environment.get(_NODES, ""))
    if nodes is None:
        return None
    low, high = nodes
    written = environment.get(_PROCESSES, "")
    source = f"{_NODES}={environment[_NODES]} {_PROCESSES}={written}".rstrip("=")
    if not written.isdigit() or int(written) == 0:  # auto, gpu, cpu: only torchrun knows the number
        return Expected(low, None, 1, source)
    each = int(written)
    sure = high > 1 or "TORCHELASTIC_RUN_ID" in environment
    return Expected(low * each, high * each, each, source, sure)


def _range(text: str) -> tuple[int, int] | None:
    """Read `2` or `1:4`, as torchrun's --nnodes does."""
    first, _, last = text.partition(":")
    last = last or first
    if not (first.isdigit() and last.isdigit()) or not 0 < int(first) <= int(last):
        return None
    return int(first), int(last)
