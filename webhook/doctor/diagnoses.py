"""Diagnoses: the check, the severity, the finding, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Diagnosis", "Severity", "error", "ok", "unknown", "warning", "worst_first"]


class Severity(Enum):
    """How bad a diagnosis is, worst first. `UNKNOWN` means that the check could not be made."""

    ERROR = "error"
    UNKNOWN = "unknown"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One result of a check.

    Attributes:
        check: name of the check in `examinations.CHECKS`, such as `webhooks`.
        severity: how bad it is.
        what: what was found, one sentence without a full stop.
        todo: what to do, one sentence without a full stop; "" when there is nothing to do.
        figures: what was measured, in the units of their names: `medianSeconds`.
    """

    check: str
    severity: Severity
    what: str
    todo: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


def error(check: str, what: str, todo: str) -> Diagnosis:
    """Make a diagnosis: jobs are wrongly refused, stranded or let through."""
    return Diagnosis(check, Severity.ERROR, what, todo)


def warning(check: str, what: str, todo: str) -> Diagnosis:
    """Make a diagnosis: it works, but not always or not for everybody."""
    return Diagnosis(check, Severity.WARNING, what, todo)


def unknown(check: str, what: str, todo: str) -> Diagnosis:
    """Make a diagnosis: it could not be checked, for the given reason."""
    return Diagnosis(check, Severity.UNKNOWN, what, todo)


def ok(check: str, what: str, **figures: float) -> Diagnosis:
    """Make a diagnosis: it is as it should be, with what was measured."""
    return Diagnosis(check, Severity.OK, what, figures=figures)


def worst_first(found: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Sort by severity; equal severities keep their order."""
    order = list(Severity)
    return sorted(found, key=lambda each: order.index(each.severity))
