"""Wording: the lines that are printed about a job."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from muster.strategies.documents.findings import Finding
from muster.webhook.cli import places
from muster.webhook.cli.cases import Case
from muster.webhook.cli.problems import one_line

__all__ = ["findings", "lines", "place", "plural", "warn"]


def lines(case: Case) -> Iterator[str]:
    """Yield `FILE:LINE:COLUMN: severity: kind/name field: value: message (rule)` for each finding, and for a failure.

    Compilers write lines like these, so editors jump to the place.
    """
    name = f"{case.title}{' (predicted)' if case.predicted else ''}"
    for each in case.findings:
        where = places.at(case, places.of_finding(case, each))
        yield one_line(f"{where}: {each.severity.value}: {name} {each} ({each.rule})")
    if case.failure:
        yield one_line(f"{places.at(case, places.of_case(case))}: error: {name} {case.failure}")


def place(case: Case) -> str:
    """Return place and name of the job."""
    return f"{case.source.origin} {case.title}{' (predicted)' if case.predicted else ''}"


def findings(case: Case) -> list[dict[str, Any]]:
    """Return the findings of a case for JSON, each with line and column of its field (None: not from a text)."""
    return [_finding(case, each) for each in case.findings]


def _finding(case: Case, each: Finding) -> dict[str, Any]:
    spot = places.of_finding(case, each)
    return {
        "severity": each.severity.value,
        "line": spot and spot.line,
        "column": spot and spot.column,
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
