"""Texts on a terminal, in which what a tenant chose is only shown, whatever characters are in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

__all__ = ["clean", "count", "moment", "number", "spark"]

_BARS = "▁▂▃▄▅▆▇█"


def clean(text: object, most: int = 200) -> str:
    """Return a text as one line of at most so many characters, with control and bidi characters as escapes."""
    line = " ".join(str(text)[: most + 1].split())
    shown = line if len(line) <= most else f"{line[:most]}…"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)


def moment(seconds: float) -> str:
    """Return seconds since 1970 as people and programs read them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def count(some: int, one: str, many: str) -> str:
    """Return `1 run` or `1,234 runs`."""
    return f"{some:,} {one if some == 1 else many}"


def number(value: float) -> str:
    """Return a measured value with four digits."""
    return f"{value:.4g}"


def spark(values: Sequence[float]) -> str:
    """Return a line of bars, the highest for the largest value; one that is not a finite number is `!`."""
    finite = [each for each in values if math.isfinite(each)]
    low, width = min(finite, default=0.0), max(finite, default=0.0) - min(finite, default=0.0)
    return "".join(_bar((each - low) / width if width else 0.0) if math.isfinite(each) else "!" for each in values)


def _bar(share: float) -> str:
    return _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]
