"""Ranges: numbers that vLLM's parser takes and its configuration then refuses, such as a part of the memory above 1.

The limits are those of the pydantic fields of vLLM's configurations (0.31 `vllm/config/cache.py`, `scheduler.py`,
`parallel.py`, `observability.py`, `vllm.py`), printed into `flags.json`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator

from muster.strategies.frameworks.vllm import flags, parsing
from muster.strategies.frameworks.vllm.servers import Server

__all__ = ["ALWAYS", "find"]

_SIZES = ("tensor", "pipeline", "data", "prefill-context", "decode-context")
ALWAYS = frozenset({"gpu-memory-utilization", "max-num-seqs", *(f"{kind}-parallel-size" for kind in _SIZES)})
"""Flags whose limits hold in every version of vLLM."""
_LONGEST = 40
_SAID = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_HOLDS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}


def find(server: Server) -> Iterator[tuple[str, str, str]]:
    """Yield (flag, its value, message) of each number that is out of its range."""
    for name, text in () if server.open else server.parsed.values.items():
        found = flags.spec(f"--{name}")
        limits = found.limits if found else ()
        number = _number(text) if limits else None
        if number is not None and not all(_HOLDS[kind](number, limit) for kind, limit in limits):
            wanted = " and ".join(f"{_SAID[kind]} {limit:g}" for kind, limit in limits)
            yield name, text, f"vLLM would not start: the value must be {wanted}; correct it"


def _number(text: str) -> float | None:
    """Return a number, None for a word (`auto`, `None`, `16k`), which is judged by the parser alone."""
    if parsing.hidden(text) or len(text) > _LONGEST:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number
