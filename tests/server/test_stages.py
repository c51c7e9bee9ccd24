"""One way through: a review goes from stage to stage, and no stage calls an earlier one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import sys
from pathlib import Path

import pytest

from tests.costs import measure

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
STAGES = {
    "read": ("admission.reviews.parse",),
    "context": ("admission.admission_context", "admission.governors", "admission.supply_lookup", "admission.documents"),
    "rules or changes": ("admission.validations", "admission.enforcements", "admission.plugin_calls"),
    "outcome": ("admission.admission_outcomes",),
    "answer": ("admission.answers",),
    "record": ("admission.accounts", "audit.known.record", "audit.chain"),
}

_BEGINNINGS = [(stage, each) for stage, several in STAGES.items() for each in several]


def stage_of(name):
    """The stage of a function, by its full name; "" for one of no stage."""
    own = name.removeprefix("muster.").removeprefix("webhook.")
    return next((stage for stage, each in _BEGINNINGS if f"{own}.".startswith(f"{each}.")), "")


def passed(call):
    """The stages of a call in their order, each as often as it was come to; members of a value are no stage."""
    found = []

    def profile(frame, event, _argument):
        if event == "call" and "." not in frame.f_code.co_qualname:
            stage = stage_of(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}")
            if stage:
                found.append(stage)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [stage for stage, _ in itertools.groupby(found)]


@pytest.fixture(scope="module")
def stages():
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        return {name: passed(call) for name, call in measure.cases(loop)}


def test_a_review_goes_through_all_stages_and_comes_back_to_none(stages):
    assert len(stages) == 6
    assert {tuple(each) for each in stages.values()} == {tuple(STAGES)}


def test_the_architecture_shows_these_stages_in_this_order():
    way = ARCHITECTURE.read_text().partition("## The way of one request")[2].partition("\n## ")[0]
    assert re.findall(r"^\| \*\*(.+?)\*\* \|", way, re.MULTILINE) == list(STAGES)
