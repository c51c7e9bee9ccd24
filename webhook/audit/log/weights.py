"""About how much memory a record takes that waits to be written."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["weight"]

_TEXT, _CONTAINER = 50, 64  # bytes of an object, without what is in it


def weight(value: Any, most: int) -> int:
    """Return about how many bytes of memory a value takes; the count ends when it is above `most`."""
    total, stack = 0, [value]
    while stack and total <= most:
        each = stack.pop()
        if isinstance(each, str):
            total += _TEXT + len(each)
        elif isinstance(each, dict):
            total += _CONTAINER
            stack += each
            stack += each.values()
        elif isinstance(each, (list, tuple)):
            total += _CONTAINER + 8 * len(each)
            stack += each
        else:
            total += sys.getsizeof(each)
    return total
