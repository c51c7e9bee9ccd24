"""Wording: the lines that are printed about a job."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from strategies.documents.findings import Finding
from webhook.cli.cases import Case
from webhook.cli.problems import one_line

__all__ = ["finding", "lines", "place", "plural", "warn"]


def lines(case: Case) -> Iterator[str]:
    """Yield `FILE:doc N kind/name: severity field: value: message (rule)` for each finding, and for a failure."""
    for each in case.findings:
        severity = each.severity.value
        yield one_line(f"{place(case)}: {severity} {each} ({each.rule})")
    if case.failure:
        yield one_line(f"{place(case)}: error {case.failure}")


def place(case: Case) -> str:
    """Return place and name of the job."""
    return f"{case.source.origin} {case.title}{' (predicted)' if case.predicted else ''}"


def finding(each: Finding) -> dict[str, Any]:
    """Return a finding for JSON."""
    return {
        "severity": each.severity.value,
        "field": each.field,
        "value": each.value,
        "message": each.message,
        "rule": each.rule,
    }


def warn(texts: Iterable[str]) -> None:
    """Write lines on stderr."""
    for text in texts:
        print(text, file=sys.stderr)


def plural(count: int, noun: str) -> str:
    """Return `1 job`, `2 jobs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
