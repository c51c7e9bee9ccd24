"""Reports: what became of the mutants, as a table by folder and a list of those that nobody noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.trials import Outcome, Result

__all__ = ["NOTICED", "Judged", "as_json", "lines", "share"]

NOTICED = (Outcome.KILLED, Outcome.TIMED_OUT)
"""Outcomes of a fault at which a test failed or hung."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A result with all that a reader needs.

    Attributes:
        stratum: the folder for which the mutant was drawn.
        result: what became of it.
        difference: the lines that go and come.
        why: it is not a fault, None where nobody said so.
    """

    stratum: str
    result: Result
    difference: tuple[str, ...]
    why: str | None

    @property
    def noticed(self) -> bool:
        """Whether a test failed or hung."""
        return self.result.outcome in NOTICED

    @property
    def counts(self) -> bool:
        """Whether it belongs to what the share is of: all but survivors that are no faults."""
        return self.noticed or self.why is None


def share(judged: Sequence[Judged]) -> float:
    """Return the noticed part of all that are faults, from 0 to 1; 1 where there are none."""
    counted = [each for each in judged if each.counts]
    return sum(each.noticed for each in counted) / len(counted) if counted else 1.0


def lines(judged: Sequence[Judged], sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield the report.

    Args:
        judged: all results.
        sizes: how many mutants each folder would have.
    """
    for each in judged:
        if not each.noticed and each.why is None:
            yield from _survivor(each)
    yield "folder                   possible  tried  killed  timed out  equivalent  survived   share"
    for stratum in sizes:
        yield _row(stratum, sizes[stratum], [each for each in judged if each.stratum == stratum])
    yield _row("all", sum(sizes.values()), judged)


def _row(name: str, size: int, judged: Sequence[Judged]) -> str:
    killed = sum(each.result.outcome is Outcome.KILLED for each in judged)
    late = sum(each.result.outcome is Outcome.TIMED_OUT for each in judged)
    same = sum(not each.counts for each in judged)
    left = len(judged) - killed - late - same
    return f"{name:<24}{size:>9}{len(judged):>7}{killed:>8}{late:>11}{same:>12}{left:>10}{share(judged):>8.1%}"


def _survivor(judged: Judged) -> Iterator[str]:
    result = judged.result
    mutant = result.mutant
    yield f"{mutant.file}:{mutant.lines[0]}: {result.outcome.value} ({mutant.kind})"
    yield from (f"    {line}" for line in judged.difference)
    files = sorted(result.ran, key=lambda file: -result.ran[file])
    shown = ", ".join(f"{file} {result.ran[file]}" for file in files[:5]) or "none reaches it"
    yield f"    tests: {result.tests} ran ({shown}{', ...' if len(files) > 5 else ''})"
    yield ""


def as_json(judged: Sequence[Judged], place: Path) -> None:
    """Write all results, for other programs."""
    out = [
        {
            "folder": each.stratum,
            "file": each.result.mutant.file,
            "line": each.result.mutant.lines[0],
            "kind": each.result.mutant.kind,
            "outcome": each.result.outcome.value,
            "why": each.why,
            "by": each.result.by,
            "tests": each.result.tests,
            "seconds": round(each.result.seconds, 1),
            "difference": each.difference,
        }
        for each in judged
    ]
    place.write_text(json.dumps(out, indent=1) + "\n")
