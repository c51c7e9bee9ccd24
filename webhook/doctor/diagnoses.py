"""Diagnoses: the check, the severity, the finding, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["INSTALL", "Diagnosis", "Severity", "error", "ok", "unknown", "warning"]

INSTALL = "install again (docs/install.md)"


class Severity(Enum):
    """How bad a diagnosis is, worst first.

    `ERROR`: jobs are wrongly refused, stranded or let through. `UNKNOWN`: the check could not be made. `WARNING`: it
    works, but not always or not for everybody.
    """

    ERROR = "error"
    UNKNOWN = "unknown"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One result of a check.

    Attributes:
        severity: how bad it is.
        what: what was found, one sentence without a full stop.
        todo: what to do, one sentence without a full stop; "" when there is nothing to do.
        figures: what was measured, in the units of their names: `medianSeconds`.
        check: name of the check in `examination.CHECKS`, such as `webhooks`, which `examine` fills in.
    """

    severity: Severity
    what: str
    todo: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    check: str = ""


def error(what: str, todo: str) -> Diagnosis:
    """Make a diagnosis of severity `ERROR`."""
    return Diagnosis(Severity.ERROR, what, todo)


def warning(what: str, todo: str) -> Diagnosis:
    """Make a diagnosis of severity `WARNING`."""
    return Diagnosis(Severity.WARNING, what, todo)


def unknown(what: str, todo: str) -> Diagnosis:
    """Make a diagnosis of severity `UNKNOWN`."""
    return Diagnosis(Severity.UNKNOWN, what, todo)


def ok(what: str, **figures: float) -> Diagnosis:
    """Make a diagnosis: it is as it should be, with what was measured."""
    return Diagnosis(Severity.OK, what, figures=figures)
