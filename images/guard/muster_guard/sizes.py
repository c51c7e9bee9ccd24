"""The number of ranks that a training should have, by its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Expected", "expected", "nodes"]

_MUSTER = "MUSTER_EXPECTED_WORLD_SIZE"
_DIGITS = 10
_NODES, _PROCESSES, _MADE = "PET_NNODES", "PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE"


@dataclass(frozen=True)  # no slots: Python 3.8 and 3.9 have none
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

    Trainer's number of nodes holds whatever the program is. Its PET_NPROC_PER_NODE does not: it is the devices or CPUs
    of a node, and a launch may have a number of its own. So a launcher's LOCAL_WORLD_SIZE counts the ranks of a node;
    without a launcher, several nodes have one rank each at least, and one node may use its devices with one process
    (DataParallel, `device_map`), where the number is not `sure`.

    Source: trainer/v2 pkg/runtime/framework/plugins/torch/torch.go; torch/distributed/run.py for the forms.
    """
    asked = environment.get(_MUSTER, "")
    if asked.isdigit() and int(asked) > 0:
        return Expected(int(asked), int(asked), 1, f"{_MUSTER}={asked}")
    nodes = _range(environment.get(_NODES, ""))
    if nodes is None:
        return None
    low, high = nodes
    named = _MADE if _count(environment.get(_MADE, "")) else _PROCESSES
    each = _count(environment.get(named, ""))
    source = f"{_NODES}={environment[_NODES]} {named}={environment.get(named, '')}".rstrip("=")
    if named == _MADE:
        return Expected(low * each, high * each, each, source)
    if high > 1 or each == 0:  # 0 for auto, gpu and cpu: only torchrun knows the number
        return Expected(low, None, 1, source)
    return Expected(each, each, 1, source, sure=False)


def nodes(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many nodes a training has at least, by Trainer; 1 where it says none."""
    return (_range(environment.get(_NODES, "")) or (1, 1))[0]


def _count(text: str) -> int:
    return int(text) if text.isdigit() and len(text) < _DIGITS else 0


def _range(text: str) -> tuple[int, int] | None:
    """Read `2` or `1:4`, as torchrun's --nnodes does."""
    first, _, last = text.partition(":")
    last = last or first
    if not (first.isdigit() and last.isdigit()) or not 0 < int(first) <= int(last):
        return None
    return int(first), int(last)
