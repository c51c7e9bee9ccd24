"""Chains records by hash, so that a line that is edited, removed, inserted or moved does not fit its neighbours.

Each line has its number (`seq`), the hash of the previous line (`prev`) and its own (`hash`): the SHA-256 of its
canonical JSON without `hash`, which has sorted keys and no spaces. The chain proves that the lines belong together in
this order. It does not protect against somebody who can rewrite the whole file with new hashes; an anchor that is kept
elsewhere does (`verification`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import orjson

from muster.webhook.audit import records, schemas
from muster.webhook.audit.log import parsing
from muster.webhook.audit.records import Link, Record

__all__ = ["GENESIS", "Chain", "ChainError", "digest_of", "line_of"]

GENESIS = "0" * 64
"""The `prev` of the first record of a chain, whose `seq` is 1."""


class ChainError(ValueError):
    """A line does not have a record that a chain can continue from."""


class Chain:
    """The end of a chain: `seq` and `prev` are number and hash of its last record."""

    def __init__(self, seq: int = 0, prev: str = GENESIS) -> None:
        self.seq = seq
        self.prev = prev

    @classmethod
    def resume_from(cls, last_line: bytes) -> Chain:
        """Continue after `last_line`; ChainError when it is torn, foreign or edited."""
        try:
            record = parsing.parse(last_line)
        except parsing.LineError as error:
            message = f"cannot continue the audit chain after {last_line[:60]!r}: {error}; remove the line"
            raise ChainError(message) from error
        if not schemas.is_link(record):
            misfit = schemas.misfit(record, records.Link)
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
        canonical = _canonical(_without_hash(body))
        digest = hashlib.sha256(canonical).hexdigest()
        self.seq, self.prev = self.seq + 1, digest
        return _with_hash(canonical, digest)


def digest_of(record: Link) -> str:
    """Compute the hash that a sealed record should have, from all its fields except `hash`."""
    return hashlib.sha256(_canonical(_without_hash(record))).hexdigest()


def line_of(record: Link) -> bytes:
    """Return the canonical line of a sealed record: equal records have equal bytes."""
    return _with_hash(_canonical(_without_hash(record)), record["hash"])


def _without_hash(record: Mapping[str, object]) -> dict[str, object]:
    body = dict(record)
    body.pop("hash", None)
    return body


def _canonical(body: dict[str, object]) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def _with_hash(canonical: bytes, digest: str) -> bytes:
    return canonical[:-1] + b',"hash":"' + digest.encode() + b'"}\n'
