"""Diagnoses: which check, how bad, what is so, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Diagnosis", "Severity", "error", "ok", "unknown", "warning", "worst_first"]


class Severity(Enum):
    """Worst first. `UNKNOWN` is what could not be checked: it may be well or not."""

    ERROR = "error"
    UNKNOWN = "unknown"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that is so.

    Attributes:
        check: name of the check, `webhooks`; one of those of `examinations.CHECKS`.
        severity: how bad it is.
        what: is so, one sentence without a full stop.
        todo: what to do, one sentence without a full stop; "" when there is nothing to do.
        figures: what was measured, in the units that their names say: `medianSeconds`.
    """

    check: str
    severity: Severity
    what: str
    todo: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


def error(check: str, what: str, todo: str) -> Diagnosis:
    """Say that jobs are refused, stranded or let through wrongly."""
    return Diagnosis(check, Severity.ERROR, what, todo)


def warning(check: str, what: str, todo: str) -> Diagnosis:
    """Say that it works, and that it will not always or not for everybody."""
    return Diagnosis(check, Severity.WARNING, what, todo)


def unknown(check: str, what: str, todo: str) -> Diagnosis:
    """Say that it could not be checked, and why."""
    return Diagnosis(check, Severity.UNKNOWN, what, todo)


def ok(check: str, what: str, **figures: float) -> Diagnosis:
    """Say that it is well, with what was measured."""
    return Diagnosis(check, Severity.OK, what, figures=figures)


def worst_first(found: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Sort by severity; those of one severity keep their order."""
    order = list(Severity)
    return sorted(found, key=lambda each: order.index(each.severity))
