"""A decision costs no more than before: a change that makes it dearer is seen in the change, not by its users."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.costs import measure

_ALLOWED = 0.03


@pytest.fixture(scope="module")
def counted():
    command = [sys.executable, "-m", "tests.costs.measure"]
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def grown(kept, counted):
    """Tell each figure that is more than what is kept, by more than a few per cent."""
    return [
        f"{case}: {what} were {kept[case][what]:,} and are {count:,} ({count / kept[case][what] - 1:+.1%})"
        for case, counts in counted.items()
        for what, count in counts.items()
        if count > (1 + _ALLOWED) * kept[case][what]
    ]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the figures are those of the bytecode of Python 3.11")
def test_a_review_costs_no_more_than_is_kept_in_figures_json(counted):
    kept = json.loads(measure.FIGURES.read_text())
    assert kept.keys() == counted.keys()
    told = grown(kept, counted)
    assert not told, "\n".join([*told, "Find out why. If it has to be so: make costs, and commit figures.json"])


def test_what_a_review_costs_more_by_more_than_three_per_cent_is_told_and_cheaper_is_no_failure():
    kept = {"a": {"bytecodes": 1000, "calls": 100}}
    assert grown(kept, {"a": {"bytecodes": 1030, "calls": 97}}) == []
    assert grown(kept, {"a": {"bytecodes": 1031, "calls": 96}}) == [
        "a: bytecodes were 1,000 and are 1,031 (+3.1%)",
    ]
