"""How the time and the memory of a decision grow with the size of each list and text."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import orjson

from bench import memories
from muster.webhook.admission import decisions, reviews
from tests.growth.axes import Axis, Case, axes
from tests.growth.scripts import axes as texts
from tests.support import admissions

__all__ = ["run"]

_SIZES = (1, 4, 16)
_ROUNDS = 3
_LISTS = ("containers", "env", "volumes", "replicatedJobs", "args", "annotations", "runtimePatches", "tolerations")
_TEXTS = ("torchrun", "assignments", "double quotes", "backticks", "heredocs", "comments", "pipes", "lines that go on")
_LONGEST = ("words jobset-torch a flag", "quantities digits and a stranger", "snapshots")


def run() -> None:
    """Print milliseconds and KiB at the peak of a validation, for three sizes of each list and text."""
    print(f"validate, least of {_ROUNDS} rounds; each column is 4 times the one before it")
    print(f"{'what grows':52} {'bytes':>24} {'ms':>22} {'KiB':>22}")
    for name, axis in _chosen():
        cases = [axis.make(axis.unit * size) for size in _SIZES]
        rows = (
            [case.size for case in cases],
            [_seconds(case) * 1e3 for case in cases],
            [_peak(case) for case in cases],
        )
        print(f"{name:52} {_row(rows[0], '7.0f'):>24} {_row(rows[1], '.1f'):>22} {_row(rows[2], '.0f'):>22}")


def _row(values: list[float], form: str) -> str:
    return " ".join(f"{value:{form}}" for value in values)


def _chosen() -> Iterator[tuple[str, Axis]]:
    """Yield the first axis of each list, and the texts."""
    lists = list(axes(texts=False))
    for key in _LISTS:
        axis = next(each for each in lists if f".{key} " in each.name)
        yield f"{key} ({axis.name.split()[0]})", axis
    for axis in texts():
        kind, _, what = axis.name.partition(" ")
        if axis.name in _LONGEST or (kind == "scripts" and what in _TEXTS):
            yield axis.name, axis


def _call(case: Case) -> None:
    request = reviews.parse(orjson.dumps(admissions.make_review(case.document)), "validate")
    decisions.evaluate(request, admissions.make_reader(*case.cluster), case.policy)


def _seconds(case: Case) -> float:
    spent = []
    for _ in range(_ROUNDS):
        memories.forget()
        began = time.process_time()
        _call(case)
        spent.append(time.process_time() - began)
    return min(spent)


def _peak(case: Case) -> float:
    memories.forget()
    tracemalloc.start()
    _call(case)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1024
