"""Folds the decisions about one job into one row: both phases of its TrainJob and of the JobSet that Trainer makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from muster.audit.record_schema import Decision, RecordedChange, RecordedFinding, Sealed
from muster.webhook.pages import layouts, subjects
from muster.webhook.pages.scans import Row

__all__ = ["Fold", "folded"]

_Part = TypeVar("_Part", RecordedChange, RecordedFinding)
_WEIGHTS: dict[Decision, int] = {"error": 0, "denied": 1, "patched": 2, "allowed": 3, "unchanged": 4, "skipped": 5}


@dataclass(frozen=True, slots=True)
class Fold:
    """The decisions about one job that a scan found.

    Attributes:
        rows: newest first; one row without a record stands alone.
    """

    rows: tuple[Row, ...]

    @property
    def records(self) -> tuple[Sealed, ...]:
        """The records of the rows, newest first."""
        return tuple(row.entry.record for row in self.rows if row.entry.record is not None)

    @property
    def decision(self) -> Decision:
        """The decision that says most about the job: a refusal before a correction before an admission."""
        return min((record["decision"] for record in self.records), key=_weight)

    def said(self) -> tuple[list[RecordedFinding], list[RecordedChange]]:
        """Return the findings and the changes of all decisions, each once, the most important and the oldest first."""
        every = [layouts.ordered(record) for record in reversed(self.records)]
        findings = _once(each for _, found in every for each in found)
        changes = _once(each for changed, _ in every for each in changed)
        return sorted(findings, key=layouts.severity), sorted(changes, key=layouts.is_bookkeeping)


def folded(rows: Iterable[Row]) -> list[Fold]:
    """Put the rows of one job together, in the order of their newest decision; a line without a record stays alone."""
    jobs: dict[tuple[str, str] | int, list[Row]] = {}
    for number, row in enumerate(rows):
        key = subjects.job_key(row.entry.record) if row.entry.record else number
        jobs.setdefault(key, []).append(row)
    return [Fold(tuple(each)) for each in jobs.values()]


def _weight(decision: Decision) -> int:
    return _WEIGHTS.get(decision, 0)


def _once(parts: Iterable[_Part]) -> Iterator[_Part]:
    seen: set[tuple[str, str]] = set()
    for part in parts:
        key = (part["field"], part["rule"])
        if key not in seen:
            seen.add(key)
            yield part
