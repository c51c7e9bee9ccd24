"""What one decision costs while something grows, from the bytes of the review to those of the answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from bench import figures, memories
from bench.peers import markdown, plots
from bench.scaling.axes import AXES, Axis, Case
from muster.webhook.admission import answers, decisions, reviews

__all__ = ["Timing", "measured", "plot", "table"]

_CALLS = 20
_PHASES: tuple[reviews.Phase, ...] = ("mutate", "validate")


@dataclass(frozen=True, slots=True)
class Timing:
    """One case in one round.

    Attributes:
        axis: what grows.
        size: how many there are.
        phase: mutate, or validate what the mutation left.
        round: its number, from 1.
        size_bytes: of the review.
        first: processor microseconds with nothing remembered of it.
        again: processor microseconds of the review afterwards, the median of some.
    """

    axis: str
    size: int
    phase: str
    round: int
    size_bytes: int
    first: float
    again: float


def measured(axes: Sequence[Axis], rounds: int, calls: int = _CALLS) -> list[Timing]:
    """Measure all sizes of all axes in turns, in so many rounds."""
    cases = [
        (axis, size, phase, _in_phase(case, phase))
        for axis in axes
        for size in axis.sizes
        for case in [axis.make(size)]
        for phase in _PHASES
    ]
    return [
        Timing(axis.name, size, phase, number, len(case.body), *_microseconds(case, phase, calls))
        for number in range(1, rounds + 1)
        for axis, size, phase, case in (cases if number % 2 else cases[::-1])
    ]


def table(timings: Iterable[Timing]) -> str:
    """Return the table, a row for each axis and size."""
    found: dict[tuple[str, int], dict[str, list[Timing]]] = {}
    for each in timings:
        found.setdefault((each.axis, each.size), {}).setdefault(each.phase, []).append(each)
    heads = ["what grows", "how many", "review, kB"]
    heads += [f"{phase}, {which}, µs" for phase in _PHASES for which in ("first", "again")]
    rows = []
    for (axis, size), phases in sorted(found.items(), key=_place):
        cells = [axis, f"{size:,}", f"{phases[_PHASES[0]][0].size_bytes / 1e3:.1f}"]
        for phase in _PHASES:
            cells += [str(figures.rounds([each.first for each in phases[phase]]))]
            cells += [str(figures.rounds([each.again for each in phases[phase]]))]
        rows.append(cells)
    return markdown.table(heads, rows)


def plot(timings: Iterable[Timing], folder: Path) -> str:
    """Write the plot of how both phases grow, where a text came before; return the Markdown that shows it."""
    found: dict[tuple[str, int], dict[int, float]] = {}
    for each in timings:
        rounds = found.setdefault((each.axis, each.size), {})
        rounds[each.round] = rounds.get(each.round, 0.0) + each.again
    rows = [
        (f"{axis}, {size:,}", figures.rounds(list(rounds.values())))
        for (axis, size), rounds in sorted(found.items(), key=_place)
    ]
    return plots.save(folder, "scaling-decisions", "Both phases of a decision, again, in µs", rows)


def _place(entry: tuple[tuple[str, int], object]) -> tuple[int, int]:
    (axis, size), _ = entry
    return [each.name for each in AXES].index(axis), size


def _in_phase(case: Case, phase: reviews.Phase) -> Case:
    """Return the case of the phase: the validating one gets the object as the mutation leaves it.

    Raises:
        ValueError: the review is refused, so that it would not show what a decision costs.
    """
    decision = decisions.evaluate(reviews.parse(case.body, "mutate"), case.reader, case.policy)
    body = orjson.loads(case.body)
    body["request"]["object"] = decision.document
    later = Case(orjson.dumps(body), case.reader, case.policy)
    for each, name in zip((case, later), _PHASES, strict=True):
        answer = answers.answer(decisions.evaluate(reviews.parse(each.body, name), each.reader, each.policy))
        if not answer["allowed"]:
            raise ValueError(f"a review that is to be measured is refused in {name}: {answer}")
    return case if phase == "mutate" else later


def _microseconds(case: Case, phase: reviews.Phase, calls: int) -> tuple[float, float]:
    memories.forget()
    first, *others = (_once(case, phase) for _ in range(calls + 1))
    return first, figures.percentile(others, 0.5)


def _once(case: Case, phase: reviews.Phase) -> float:
    began = time.process_time_ns()
    request = reviews.parse(case.body, phase)
    reviews.dumps(answers.answer(decisions.evaluate(request, case.reader, case.policy)))
    return (time.process_time_ns() - began) / 1e3
