"""Checks that one record is as it was written, and is still between its neighbours.

`muster audit verify` reads and checks the whole chain. The page of a record only reads the record, the one before and
the one after, which already shows an edit, and a line that was removed or inserted next to it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from muster.audit import chain
from muster.audit.record_schema import Link, Sealed, misfit
from muster.webhook.pages.log_places import Found, LinePlace, Shelf

__all__ = ["Neighbour", "Standing", "own", "standing"]

_LOOKED_AT = 200  # maximum number of lines without a record between two records
_READ = 96 * 1024 * 1024  # maximum bytes of these lines


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A record next to another one, and what is wrong between the two, or ""."""

    place: LinePlace
    seq: int
    problem: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The place of one record in the chain.

    Attributes:
        problem: what is wrong with the record itself, or "".
        before: the record before; None at the beginning of the log, or when too many other lines are between.
        after: the record after; None at the end of the log.
    """

    problem: str
    before: Neighbour | None
    after: Neighbour | None

    @property
    def is_intact(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.problem or (self.before and self.before.problem) or (self.after and self.after.problem))


def own(record: Sealed, data: bytes) -> str:
    """Return what is wrong with the record itself, or ""; `data` is its line."""
    flaw = chain.flaw(record, data.rstrip(b"\r\n"))
    return f"this record {flaw}: it was edited" if flaw else ""


def standing(shelf: Shelf, found: Found, record: Sealed) -> Standing:
    """Compare a record with the records next to it."""
    before = next(_links(shelf.upwards(found.place.log, found.place)), None)
    after = next(_links(shelf.downwards(found.place)), None)
    return Standing(
        own(record, found.data or b""),
        Neighbour(before[0], before[1]["seq"], _breach(before[1], record)) if before else None,
        Neighbour(after[0], after[1]["seq"], _breach(record, after[1])) if after else None,
    )


def _links(lines: Iterator[Found]) -> Iterator[tuple[LinePlace, Link]]:
    room = _READ
    for found in itertools.islice(lines, _LOOKED_AT):
        with contextlib.suppress(chain.LineError):
            value = chain.parse(found.data)
            if misfit(value, Link) is None:
                yield found.place, value
        room -= found.weight
        if room < 0:
            return


def _breach(elder: Link, younger: Link) -> str:
    if younger["seq"] == 1 and younger["prev"] == chain.GENESIS:
        return ""  # another process began its own chain
    if younger["seq"] == elder["seq"] + 1:
        fits = younger["prev"] == elder["hash"]
        return "" if fits else f"record {younger['seq']} does not follow record {elder['seq']}: one was replaced"
    if younger["seq"] > elder["seq"]:
        return f"records are missing between {elder['seq']} and {younger['seq']}"
    return f"record {younger['seq']} comes after record {elder['seq']}: lines were moved or inserted"
