"""The numbers of a training that go into the guard's report: few, short, and never anything but numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster_telemetry import measures
from muster_telemetry.syncs import Syncs

__all__ = ["Summary"]

_LAST = ("reward", "difference", "ratio", "staleness")


class Summary:
    """What a training was like when it was seen last.

    Args:
        syncs: of its weights.
    """

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs
        self._last: dict[str, float] = {}
        self._dropped = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Take one row of the log."""
        found = measures.values(row)
        self._last |= found
        self._dropped += int(found.get("dropped", 0))

    def report(self) -> dict[str, float] | None:
        """Return the member `sampling` of a report; None where nothing was seen.

        Its members are as in `muster.webhook.controllers.guards.Sampling`.
        """
        found: dict[str, float] = {name: _short(self._last[name]) for name in _LAST if name in self._last}
        if self._syncs.count:
            found |= {"syncs": self._syncs.count, "syncSeconds": _short(self._syncs.total / self._syncs.count)}
        if "staleness" in self._last:  # of a synchronous training none can be too old
            found["dropped"] = self._dropped
        return found or None


def _short(value: float) -> float:
    return float(f"{value:.6g}")
