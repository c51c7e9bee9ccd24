"""Nesting: how deep the objects and lists of a JSON text may be within each other, before anything writes them again.

orjson writes up to 254 levels, but 3.11.3, 3.12.0 and 3.13.0 write beyond their buffer, and so end the process, where
some lists of more than 200 levels follow each other. The deepest objects of Kubernetes, CRDs, have about 60.
"""

from __future__ import annotations

from typing import Any

__all__ = ["MOST", "levels"]

MOST = 160
"""Levels of objects and lists of a whole text."""

_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_WORK = 4 << 20  # bytes that are looked through, beyond which the value is walked instead


def levels(text: bytes | bytearray, value: Any) -> int:
    """Return how deep a JSON text nests at most: more than `MOST` only where it does nest deeper than that.

    The brackets outside of its strings tell it, as pairs within pairs.

    Args:
        text: the text.
        value: what was read from it; asked where pairs take long to count.
    """
    held = text.count(b"[") + text.count(b"{")
    if held <= MOST:
        return held
    signs = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_AS_LISTS, _OTHERS)
    left, work = b"".join(signs.replace(b'""', b"").split(b'"')[::2]), 0  # between quotes are those of strings
    for level in range(MOST):
        if not left:
            return level
        if work > _WORK:
            break
        work += len(left)
        left = left.replace(b"[]", b"")
    return MOST + (bool(left) and (work <= _WORK or _is_deep(value)))


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST):
        if not level:
            return False
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for every in inner for child in every if isinstance(child, dict | list)]
    return bool(level)
