from __future__ import annotations

import os
import subprocess
import sys

import pytest

from e2e import parts
from e2e.cluster.places import REPOSITORY
from e2e.parts import Took

MAKEFILE = """
quick:
\t@echo quick $(QUICK)
broken:
\t@exit 3
"""


@pytest.fixture
def run(tmp_path):
    """Run parts of a Makefile as `make test` does."""
    (tmp_path / "Makefile").write_text(MAKEFILE)

    def run(*names):
        command = [sys.executable, REPOSITORY / "e2e" / "parts.py", *names]
        # Without what a make around these tests tells the makes inside it.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key != "QUICK"}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    return run


def test_the_slowest_part_is_told_first():
    lines = parts.told([Took("lint", 2.4, 0), Took("e2e", 500.0, 0), Took("unit", 100.0, 0)]).splitlines()

    assert lines[0] == "muster: 3 parts took 602 s (10.0 min), the slowest first:"
    assert [line.split() for line in lines[1:]] == [
        ["muster:", "500", "s", "e2e"],
        ["muster:", "100", "s", "unit"],
        ["muster:", "2", "s", "lint"],
    ]


@pytest.mark.parametrize(("seconds", "long"), [(parts.LONG, False), (parts.LONG + 1, True)])
def test_a_whole_that_took_longer_than_45_minutes_is_called_long(seconds, long):
    told = parts.told([Took("unit", 1.0, 0), Took("e2e", seconds - 1, 0)])

    assert ("took longer than 45 minutes" in told) is long


def test_every_part_is_run_with_its_variables_and_told(run):
    ended = run("quick QUICK=1", "quick")

    assert ended.returncode == 0
    assert ended.stdout.splitlines()[:2] == ["quick 1", "quick"]
    assert "muster: 2 parts took" in ended.stdout


def test_after_a_part_that_fails_nothing_is_begun_and_both_are_told(run):
    ended = run("broken", "quick")

    assert ended.returncode == 2, "the exit code of make"
    assert "quick" not in ended.stdout.splitlines()
    assert "broken FAILED" in ended.stdout
    assert "muster: NOT run to their end: quick" in ended.stdout
