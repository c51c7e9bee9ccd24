"""Who has the device of a claim at the moment, as the agent of its node writes it on the claim (docs/devices.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["UNREADABLE", "Holding", "parse_holding"]

UNREADABLE = "unreadable"
"""The phase of an annotation that no agent wrote."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The lease of a device.

    Attributes:
        phase: what the device is at; the lease's own words, or `unreadable`.
        holder: the pod that has memory on it; None for none.
        since: when that got it, RFC 3339 in UTC; None without a holder.
        changes: how often another pod than the one before got the device, since the agent started.
        turns: how many each session had in that time, by NAMESPACE/SESSION.
        waiting: pods that wait for it, in the order in which they asked.
        at: when this was written, RFC 3339 in UTC.
    """

    phase: str
    holder: str | None = None
    since: str | None = None
    changes: int = 0
    turns: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    at: str | None = None


def parse_holding(annotation: str | None) -> Holding | None:
    """Parse the annotation; None where there is none, and what is of another form is `unreadable`."""
    if annotation is None:
        return None
    try:
        value: Any = json.loads(annotation)
        return Holding(
            str(value["phase"]),
            _text(value["holder"]),
            _text(value["since"]),
            int(value["changes"]),
            {str(session): int(turns) for session, turns in value["turns"].items()},
            tuple(str(name) for name in value["waiting"]),
            str(value["at"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Holding(UNREADABLE)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
