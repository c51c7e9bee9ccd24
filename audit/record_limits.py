"""How much of a record is written: as many changes and findings as fit, and of a record that fails, its head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import orjson

from muster.audit.record_schema import Record

__all__ = ["BYTES", "bounded", "surely"]

BYTES = 1024 * 1024
"""Bytes of a record in JSON, about; a training job with 2,000 corrected places has half of it."""

_LONGEST = 1024  # characters of a text in a record that does not fit otherwise
_LISTS = ("findings", "changes")
_CUT = frozenset({"after", "before", "field", "message", "path", "reason", "value"})


def bounded(record: Record, limit: int = BYTES) -> Record:
    """Return `record` with at most about `limit` bytes; the very same object when it fits.

    In a record that does not fit, long values are cut first. When that is not enough, it keeps the first findings and
    changes that fit, and says how many it omits.

    Raises:
        TypeError: JSON cannot express a value.
    """
    if len(orjson.dumps(record)) <= limit:
        return record
    short: dict[str, Any] = {**record, "message": _cut(record.get("message", ""))}
    omitted, room = {}, limit
    for name in _LISTS:
        every = cast("Sequence[Mapping[str, object]]", short[name])
        short[name] = list(_fitting(every, room // 2))
        room -= len(orjson.dumps(short[name]))
        omitted[name] = len(every) - len(short[name])
    if any(omitted.values()):
        short["omitted"] = omitted
    return cast("Record", short)


def surely(shown: Callable[[Record], Record], record: Record, failed: Callable[[Exception], None]) -> Record:
    """Return what `shown` makes of a record, bounded; where that fails, the head of the record alone.

    Args:
        shown: takes out what may not be written.
        record: as it was decided.
        failed: called with the error, whose text may quote the job.
    """
    try:
        return bounded(shown(record))
    except Exception as error:  # noqa: BLE001  # whatever fails, the author of the job must not erase its record with it
        failed(error)
        bare: Record = {**record, "changes": [], "findings": []}
        bare["message"] = f"changes and findings are not written, since that failed with {type(error).__name__}"
        try:
            return shown(bare)
        except Exception:  # noqa: BLE001  # the head itself is odd
            return {**bare, "object": {"kind": bare["object"]["kind"], "namespace": "", "name": ""}, "runtime": None,
                    "owner": None, "framework": None}  # fmt: skip


def _fitting(parts: Sequence[Mapping[str, object]], room: int) -> Iterator[dict[str, object]]:
    for part in parts:
        short = {key: _cut(item) if key in _CUT else item for key, item in part.items()}
        room -= len(orjson.dumps(short)) + 1
        if room < 0:
            return
        yield short


def _cut(value: object) -> object:
    """Cut a text, and a list or an object as the text of its JSON; other values are short."""
    if isinstance(value, dict | list):
        data = orjson.dumps(value)
        value = data.decode() if len(data) > _LONGEST else value
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    return f"{value[:_LONGEST]}… and {len(value) - _LONGEST} more characters"
