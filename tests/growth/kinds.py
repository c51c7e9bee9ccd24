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
_LARGE = re.compile(r"\b\d{2,}\b(?! claims)")
"""A kind that is large at its smallest size, so that counting it takes too long."""


def axes() -> Iterator[Axis]:
    """Yield an axis for each kind that begins small."""
    for name in largest.KINDS:
        if not _LARGE.search(name):
            unit = next((size for start, size in _UNITS.items() if name.startswith(start)), _UNIT)
            yield Axis(f"kind {name}", lambda size, name=name: _case(name, size), unit)


def _case(name: str, size: int) -> Case:
    found = largest.made(name, size)
    return Case(found.document, found.cluster, policy=found.policy)
