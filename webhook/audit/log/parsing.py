"""Reads one line of a log as JSON, within limits that hold for every line that Muster wrote.

Whoever can write to the volume of a log decides what is in its lines. So each reader takes its lines from here: what
comes back can be hashed, written again and walked, and takes memory in proportion to what Muster itself writes.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from muster.webhook.audit.log import files

__all__ = ["VALUES", "LineError", "parse"]

VALUES = 1024 * 1024
"""Maximum number of members and items in a line; a record of 1 MiB cannot have more."""

_SEPARATORS = (b",", b"[", b"{")
# A string, or what would be one: it never fails, so that no text is looked at twice.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?', re.DOTALL)


class LineError(ValueError):
    """A line is not one that Muster wrote; `is_torn` when it may be the beginning of one."""

    def __init__(self, message: str, *, is_torn: bool = False) -> None:
        super().__init__(message)
        self.is_torn = is_torn


def parse(data: bytes | None) -> Any:
    """Return the value of a line.

    Args:
        data: the line, None for one that is longer than `files.LONGEST`.

    Raises:
        LineError: it is not JSON, or longer, larger or deeper than a record can be.
    """
    if data is None:
        raise LineError(f"it has more than {files.LONGEST >> 20} MiB, and no record is that long")
    if _count(data) > VALUES and _has_many_values(data):
        raise LineError(f"it has more than {VALUES} values, and no record has as many")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise LineError("it is not JSON", is_torn=data.startswith(b"{")) from error
    try:
        orjson.dumps(value)
    except TypeError as error:
        raise LineError("it is nested deeper than a record can be") from error
    return value


def _has_many_values(data: bytes) -> bool:
    """Count outside of strings, and no further than to the limit."""
    count = end = 0
    for number, found in enumerate(_STRING.finditer(data)):
        count += _count(data[end : found.start()])
        end = found.end()
        if count > VALUES or number > 2 * VALUES:
            return True
    return count + _count(data[end:]) > VALUES


def _count(data: bytes) -> int:
    return sum(map(data.count, _SEPARATORS))
