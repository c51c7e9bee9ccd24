"""Jobs of which several lists grow together, as a hostile author would write them: the kinds of `bench.largest`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench import largest
from tests.growth.axes import Axis, Case

__all__ = ["axes"]

_UNITS = {
    "replicated jobs, vllm": 40,
    "a script": 1024,
    "an annotation": 64,
    "a name": 256,
    "words of": 64,
    "numbers": 256,
}
_UNIT = 12
_TOGETHER = (
    *("torch", "trl", "torchtune", "accelerate", "without a command", "torch, 2 claims each"),
    *("torch, 10 claims by annotation each", "a profile each"),
)
_MOST_TOGETHER = 32  # replicated jobs of one training that Muster changes
_LARGE = re.compile(r"\b\d{2,}\b(?! claims)")
"""A kind that is large at its smallest size, so that counting it takes too long."""


def axes() -> Iterator[Axis]:
    """Yield an axis for each kind that begins small, and for those of which a few parts train together."""
    for kind in _TOGETHER:
        yield Axis(
            f"together {kind}", lambda size, kind=kind: _together(kind, size), _MOST_TOGETHER // 4, _MOST_TOGETHER
        )
    for name in largest.KINDS:
        if not _LARGE.search(name):
            unit = next((size for start, size in _UNITS.items() if name.startswith(start)), _UNIT)
            yield Axis(f"kind {name}", lambda size, name=name: _case(name, size), unit)


def _case(name: str, size: int) -> Case:
    found = largest.made(name, size)
    return Case(found.document, found.cluster, policy=found.policy)


def _together(kind: str, size: int) -> Case:
    """Return replicated jobs that labels make one training."""
    found = _case(f"replicated jobs, {kind}", size)
    for part in found.document["spec"]["replicatedJobs"]:
        metadata = part["template"]["spec"]["template"].setdefault("metadata", {})
        metadata.setdefault("labels", {})["muster.dev/role"] = "trainer"
    return found
