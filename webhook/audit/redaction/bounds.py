"""Limits the bytes of a record, after its secrets are gone: half a secret could not be recognised.

A record that fits stays as it is. In one that does not, long values are cut first. When that is not enough, the record
keeps the first findings and changes that fit and says how many it omits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import orjson

from muster.webhook.audit.records import Record

__all__ = ["BYTES", "bounded"]

BYTES = 1024 * 1024
"""Bytes of a record in JSON; a training job with 2,000 corrected places has half of it."""

_LONGEST = 1024  # characters of a text in a record that does not fit otherwise
_LISTS = ("findings", "changes")
_CUT = frozenset({"after", "before", "field", "message", "path", "reason", "value"})


def bounded(record: Record, limit: int = BYTES) -> Record:
    """Return `record` with at most about `limit` bytes; the very same object when it fits.

    Raises:
        TypeError: the record has a value that JSON cannot express.
    """
    if _size(record) <= limit:
        return record
    short: dict[str, Any] = {**record}
    short |= {name: [_short(each) for each in short[name]] for name in _LISTS}
    if "message" in short:
        short["message"] = _cut(short["message"])
    omitted, room = {}, limit
    for name in _LISTS:
        kept = list(_fitting(short[name], room // 2))
        room -= sum(map(_size, kept))
        omitted[name] = len(short[name]) - len(kept)
        short[name] = kept
    return cast("Record", {**short, "omitted": omitted} if any(omitted.values()) else short)


def _short(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _cut(item) if key in _CUT else item for key, item in part.items()}


def _cut(value: object) -> object:
    """Cut a text, and a list or an object as the text of its JSON; other values are short."""
    if isinstance(value, dict | list) and _size(value) > _LONGEST:
        value = orjson.dumps(value).decode()
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    return f"{value[:_LONGEST]}… and {len(value) - _LONGEST} more characters"


def _fitting(parts: Iterable[dict[str, Any]], room: int) -> Iterable[dict[str, Any]]:
    for part in parts:
        room -= _size(part) + 1
        if room < 0:
            return
        yield part


def _size(value: object) -> int:
    return len(orjson.dumps(value))
