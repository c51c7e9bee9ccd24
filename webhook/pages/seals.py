"""Whether one record is as it was written, and stands between the records it was written between.

The chain as a whole is for `muster audit verify`, which reads everything. A page about one record needs the record, the
one before and the one after, and that already shows an edit, and a line taken out or put in beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from webhook.audit import schemas
from webhook.audit.log import chain
from webhook.audit.records import Link, Sealed
from webhook.pages.shelves import Found, LinePlace, Shelf

__all__ = ["Neighbour", "Standing", "own", "standing"]

_LOOKED_AT = 200  # lines without a record that may lie between two records


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A record beside another one, and what is wrong between the two, "" for nothing."""

    place: LinePlace
    seq: int
    problem: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What the chain says of one record.

    Attributes:
        problem: with the record itself, "" for nothing.
        before: the record before; None where the log begins, or too many other lines lie between.
        after: the record after; None where the log ends.
    """

    problem: str
    before: Neighbour | None
    after: Neighbour | None

    @property
    def is_intact(self) -> bool:
        """Whether nothing is wrong here."""
        return not (self.problem or (self.before and self.before.problem) or (self.after and self.after.problem))


def own(record: Sealed, data: bytes) -> str:
    """Return what is wrong with a record by itself, "" for nothing; `data` is its line."""
    try:
        digest = chain.digest_of(record)
    except TypeError:  # nested deeper than what was ever written
        return "this record cannot be hashed: Muster did not write it"
    if digest != record["hash"]:
        return "this record is not what its hash was made from: it was edited"
    if chain.line_of(record).rstrip(b"\n") != data.rstrip(b"\r\n"):
        return "this record is not spelled as it was written: it was edited"
    return ""


def standing(shelf: Shelf, found: Found, record: Sealed) -> Standing:
    """Hold a record against the records beside it."""
    before = next(_links(shelf.upwards(found.place.log, found.place)), None)
    after = next(_links(shelf.downwards(found.place)), None)
    return Standing(
        own(record, found.data or b""),
        Neighbour(before[0], before[1]["seq"], _breach(before[1], record)) if before else None,
        Neighbour(after[0], after[1]["seq"], _breach(record, after[1])) if after else None,
    )


def _links(lines: Iterator[Found]) -> Iterator[tuple[LinePlace, Link]]:
    for found in itertools.islice(lines, _LOOKED_AT):
        try:
            value = orjson.loads(found.data or b"")
        except orjson.JSONDecodeError:
            continue
        if schemas.is_link(value):
            yield found.place, value


def _breach(elder: Link, younger: Link) -> str:
    if younger["seq"] == 1 and younger["prev"] == chain.GENESIS:
        return ""  # another process began a chain of its own
    if younger["seq"] == elder["seq"] + 1:
        fits = younger["prev"] == elder["hash"]
        return "" if fits else f"record {younger['seq']} does not follow record {elder['seq']}: one was exchanged"
    if younger["seq"] > elder["seq"]:
        return f"records are missing between {elder['seq']} and {younger['seq']}"
    return f"record {younger['seq']} stands after record {elder['seq']}: lines were moved or inserted"
