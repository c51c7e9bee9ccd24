"""Wording: the lines that are printed about a job."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents.findings import Finding
from muster.webhook.audit.redaction import doors
from muster.webhook.cli import places
from muster.webhook.cli.cases import Case
from muster.webhook.cli.problems import one_line

__all__ = ["age", "findings", "last_words", "lines", "listed", "place", "plural", "quoted", "warn"]

_SHOWN = 300  # characters of a quotation
_READ = 4096
_NAMED = 3  # names in a list


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


def quoted(text: object, longest: int = _SHOWN) -> str:
    """Return what a controller, the scheduler or a webhook said, as one line without secrets and without a full stop."""
    line = one_line(doors.text(str(text or ""), _READ)).rstrip(".")
    return line if len(line) <= longest else line[: longest - 1] + "…"


def last_words(text: object, pod: Mapping[str, Any]) -> str:
    """Return the last line of what a container left, without what its environment says is a secret."""
    lines = [line for line in str(text or "")[-_READ:].splitlines() if line.strip()]
    return quoted(doors.findings((), [lines[-1]], pod.get("spec"))[1][0]) if lines else ""


def age(seconds: float) -> str:
    """Return `40s`, `12m`, `3h`, `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size or (size == 86400 and seconds >= size):
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def listed(names: Sequence[str]) -> str:
    """Return `a, b, c and 2 more`."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
