"""Costs: how the work of a strategy grows with a job, counted in calls of functions and not in seconds."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

from muster import webhook
from muster.runtime_choice import Document
from muster.strategies.plugins.registry import FrameworkStrategy
from muster.testing import strategy_runs
from muster.testing.example_jobs import Made, Sample

__all__ = ["check"]

_SERVICE = str(Path(webhook.__file__).parent)
"""Whose calls are not counted: it measures large documents in another way than small ones."""
_SMALL, _TIMES = 100, 4
_ROOM = 1.5
_LISTS = {"args": "--example-{}=1", "env": "EXAMPLE_{}"}


def check(strategy: FrameworkStrategy, jobs: Iterable[Sample]) -> Iterator[tuple[str, str]]:
    """Yield the name of a job and each list of it with which the work grows faster than the list.

    One job of each kind is looked at. Work inside of one call is not seen, such as a search in a list or a regular
    expression.
    """
    first: dict[str, Sample] = {}
    for sample in jobs:
        if sample.job["kind"] != "TrainJob" or sample.job["spec"].get("trainer", {}).get("command"):
            first.setdefault(sample.job["kind"], sample)
    for sample in first.values():
        for member in _LISTS:
            few, many = (_calls(strategy, sample, member, number) for number in (_SMALL, _SMALL * _TIMES))
            if many > few * _TIMES * _ROOM:
                told = f"{_TIMES} times as many {member} take {many / few:.1f} times as many calls; walk each list once"
                yield sample.name, told


def _calls(strategy: FrameworkStrategy, sample: Sample, member: str, number: int) -> int:
    job = _grown(sample.job, member, number)
    strategy_runs.decide(strategy, job, sample.cluster, "mutate", in_tree=True)  # what is done once is not counted
    counted = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call") and not frame.f_code.co_filename.startswith(_SERVICE)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        mutated = strategy_runs.decide(strategy, job, sample.cluster, "mutate", in_tree=True)
        strategy_runs.decide(strategy, mutated.document, sample.cluster, "validate", in_tree=True)
    finally:
        sys.setprofile(before)
    return counted


def _grown(job: Document, member: str, number: int) -> Made:
    grown = copy.deepcopy(dict(job))
    words = [_LISTS[member].format(each) for each in range(number)]
    entries = words if member == "args" else [{"name": each, "value": "1"} for each in words]
    for holder in _holders(grown):
        holder[member] = [*holder.get(member, ()), *entries]
    return grown


def _holders(job: Made) -> Iterator[Made]:
    if job["kind"] == "TrainJob":
        yield job["spec"].setdefault("trainer", {})
        return
    for each in job["spec"]["replicatedJobs"]:
        yield from each["template"]["spec"]["template"]["spec"]["containers"]
