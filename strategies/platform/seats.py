"""Seats of a shared ResourceClaim: one annotation, JSON of the form `{uid: {pod, job, since}}`.

Controllers read it strictly, because they write it again and must not lose what they do not understand. Admission only
wants to know who holds seats, reads what it can, and takes what it cannot read for no seats.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from muster.strategies.documents import names
from muster.strategies.documents.findings import beginning

__all__ = ["COUNT", "Seat", "SeatsError", "count_of", "format_seats", "parse_seats", "seat_entries"]

COUNT = "seats"
"""Member of an entry that stands for several seats; only picks have it, which no claim of a cluster holds."""
_MOST = 1_000_000


class SeatsError(ValueError):
    """The annotation does not have the form that the controllers write; the message quotes it."""


class Seat(Struct, frozen=True):
    """A taken seat.

    Attributes:
        pod: name of the pod that has the seat.
        job: name of the pod's JobSet, "" when it has none.
        since: when the seat was taken, RFC 3339 in UTC.
    """

    pod: str
    job: str
    since: str


def parse_seats(annotation: str) -> dict[str, Seat]:
    """Parse the annotation; "" means that no seat is taken.

    Raises:
        SeatsError: the annotation is not JSON, or not of the form `{uid: {pod, job, since}}`.
    """
    try:
        value: Any = json.loads(annotation or "{}")
        return {uid: Seat(str(each["pod"]), str(each["job"]), str(each["since"])) for uid, each in value.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SeatsError(f"{beginning(annotation, 80)!r} is not of the form {{uid: {{pod, job, since}}}}") from error


def format_seats(seats: Mapping[str, Seat]) -> str:
    """Return the annotation for these seats."""
    value = {uid: {"pod": each.pod, "job": each.job, "since": each.since} for uid, each in seats.items()}
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def seat_entries(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of the annotation of a raw ResourceClaim, by uid, in whatever shape; none if unreadable."""
    text = ((claim.get("metadata") or {}).get("annotations") or {}).get(names.SEATS_ANNOTATION)
    try:
        entries = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}


def count_of(entry: Mapping[str, Any]) -> int:
    """Return the seats that an entry stands for: 1, unless it says otherwise; never more than a million."""
    count = entry.get(COUNT)
    return min(count, _MOST) if isinstance(count, int) and count > 1 else 1
