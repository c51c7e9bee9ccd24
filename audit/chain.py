"""Chains records by hash, so that a line that is edited, removed, inserted or moved does not fit its neighbours.

Each line has its number (`seq`), the hash of the previous line (`prev`) and its own (`hash`): the SHA-256 of its
canonical JSON without `hash`, which has sorted keys and no spaces. The chain proves that the lines belong together in
this order. It does not protect against somebody who can rewrite the whole file with new hashes; an anchor that is kept
elsewhere does (`verification`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import orjson

from muster.audit import log_files, record_schema
from muster.audit.record_schema import Link, Record

__all__ = ["GENESIS", "VALUES", "Chain", "ChainError", "LineError", "digest_of", "flaw", "line_of", "parse"]

VALUES = 1024 * 1024
"""Maximum number of members and items in a line; a record of 1 MiB cannot have more."""

GENESIS = "0" * 64
"""The `prev` of the first record of a chain, whose `seq` is 1."""


_SEPARATORS = (b",", b"[", b"{")
# A string, or what would be one: it never fails, so that no text is looked at twice.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?', re.DOTALL)


class ChainError(ValueError):
    """A line does not have a record that a chain can continue from."""


class LineError(ValueError):
    """A line is not one that Muster wrote; `is_torn` when it may be the beginning of one."""

    def __init__(self, message: str, *, is_torn: bool = False) -> None:
        super().__init__(message)
        self.is_torn = is_torn


class Chain:
    """The end of a chain: `seq` and `prev` are number and hash of its last record."""

    def __init__(self, seq: int = 0, prev: str = GENESIS) -> None:
        self.seq = seq
        self.prev = prev

    @classmethod
    def resume_from(cls, last_line: bytes) -> Chain:
        """Continue after `last_line`; ChainError when it is torn, foreign or edited."""
        try:
            record = parse(last_line)
        except LineError as error:
            message = f"cannot continue the audit chain after {last_line[:60]!r}: {error}; remove the line"
            raise ChainError(message) from error
        if misfit := record_schema.misfit(record, Link):
            raise ChainError(f"cannot continue the audit chain: {misfit}; remove the line")
        if digest_of(record) != record["hash"]:
            raise ChainError(f"cannot continue the audit chain after record {record['seq']}: it was edited")
        return cls(record["seq"], record["hash"])

    def seal(self, record: Record, dropped: int = 0) -> bytes:
        """Return `record` as the next line of the chain, with its end of line.

        The chain advances at once. If the line then cannot be written, resume the chain from the sink.

        Args:
            record: the record to seal; it is not changed.
            dropped: number of records before this one that were not written here; 0 is omitted.

        Raises:
            TypeError: the record has a value that JSON cannot express.
        """
        body = {**record, "seq": self.seq + 1, "prev": self.prev}
        if dropped:
            body["dropped"] = dropped
        canonical = _canonical(body)
        digest = hashlib.sha256(canonical).hexdigest()
        self.seq, self.prev = self.seq + 1, digest
        return _with_hash(canonical, digest)


def parse(data: bytes | None) -> Any:
    """Return the value of a line.

    Args:
        data: the line, None for one that is longer than `log_files.LONGEST`.

    Raises:
        LineError: it is not JSON, or longer, larger or deeper than a record can be.
    """
    if data is None:
        raise LineError(f"it has more than {log_files.LONGEST >> 20} MiB, and no record is that long")
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


def digest_of(record: Link) -> str:
    """Compute the hash that a sealed record should have, from all its fields except `hash`."""
    return hashlib.sha256(_canonical(record)).hexdigest()


def line_of(record: Link) -> bytes:
    """Return the canonical line of a sealed record: equal records have equal bytes."""
    return _with_hash(_canonical(record), record["hash"])


def flaw(record: Link, line: bytes) -> str:
    """Return what shows that the line of a sealed record was edited, "" for nothing; `line` is without its end."""
    if digest_of(record) != record["hash"]:
        return "does not match its hash"
    return "" if line_of(record) == line + b"\n" else "does not have the form in which Muster writes it"


def _canonical(record: Mapping[str, object]) -> bytes:
    body = {key: value for key, value in record.items() if key != "hash"}
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def _with_hash(canonical: bytes, digest: str) -> bytes:
    return canonical[:-1] + b',"hash":"' + digest.encode() + b'"}\n'


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
