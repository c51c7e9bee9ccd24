"""Findings: what validation and enforcement tell the person who wrote the job.

A finding has the shape of Kubernetes' `field.Error`: a field path, the offending value, a message that says what to do.
Every rule adds its own findings and never stops another rule, so that one `kubectl apply` shows everything wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["Finding", "Severity", "error", "errors", "note", "warning"]

_SHOWN = 120


class Severity(Enum):
    """How much a finding says against a job.

    `ERROR` denies the job in mode `enforce`. `WARNING` is shown, and the job passes. `NOTE` says what Muster could not
    see, or why it stayed silent; the command line and the audit log show it, and kubectl does not.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One error, warning or note about one field.

    Attributes:
        severity: whether it denies the job.
        field: keyed field path, `spec.trainer.numNodes`.
        value: the offending value as the document holds it; None when a field is missing.
        message: what is wrong and what to do, one sentence, no full stop.
        rule: id of the rule that reported it, such as `trl/unknown-flag`.
    """

    severity: Severity
    field: str
    value: Any
    message: str
    rule: str

    def __str__(self) -> str:
        """Return `field: value: message`, without the value when it is None, as the API server prints field errors."""
        if self.value is None:
            return f"{self.field}: {self.message}"
        shown = repr(self.value)
        if len(shown) > _SHOWN:
            shown = shown[: _SHOWN - 1] + "…"
        return f"{self.field}: {shown}: {self.message}"


def error(field: str, value: Any, message: str, *, rule: str) -> Finding:
    """Make a finding that denies the job."""
    return Finding(Severity.ERROR, field, value, message, rule)


def warning(field: str, value: Any, message: str, *, rule: str) -> Finding:
    """Make a finding that is shown while the job passes."""
    return Finding(Severity.WARNING, field, value, message, rule)


def note(field: str, value: Any, message: str, *, rule: str) -> Finding:
    """Make a finding about what Muster could not see, which is not a reproach."""
    return Finding(Severity.NOTE, field, value, message, rule)


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that deny the job."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]
