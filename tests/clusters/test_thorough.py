from __future__ import annotations

import subprocess
import sys

import pytest

from e2e import plans
from e2e.cluster.places import REPOSITORY
from e2e.suites.support import thorough


def marked(parameters):
    return [each.values[0] for each in parameters if each.marks]


def test_all_but_the_kept_cases_are_marked():
    cases = thorough.but("b", of=["a", "b", "c"], called=str.upper)

    assert [each.id for each in cases] == ["A", "B", "C"]
    assert marked(cases) == ["a", "c"]


def test_cases_that_have_names_are_kept_by_name():
    cases = thorough.but_named("one", "two", of={"one": 1, "two": 2, "three": 3})

    assert [each.id for each in cases] == ["one", "two", "three"]
    assert marked(cases) == [3]


def test_a_kept_case_that_there_is_not_is_an_error():
    with pytest.raises(ValueError, match="case 'd' is unknown"):
        thorough.but("d", of=["a"])
    with pytest.raises(ValueError, match="case 'd' is unknown"):
        thorough.but_named("d", of={"a": 1})


@pytest.mark.parametrize("tier", ["control-plane", "node"])
def test_every_suite_of_make_test_has_tests_that_are_not_thorough(tier):
    suites = {suite for run in plans.quick(["control-plane", "node"]) if run.tier == tier for suite in run.suites}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", plans.marks(tier)]
    command += [f"e2e/suites/{suite}" for suite in suites]
    collected = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300)

    found = {line.split("/")[2] for line in collected.stdout.splitlines() if "::" in line}
    assert found == suites, collected.stdout[-2000:]
