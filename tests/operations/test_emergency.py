"""The emergency: short, and nothing on it that nobody has tried."""

from __future__ import annotations

import subprocess

import pytest

from e2e.suites.outage.pages import blocks, emergency
from tests.operations import pages

BLOCKS = blocks()


def test_there_are_three_switches_each_with_its_undo():
    assert [each for each in BLOCKS if each.startswith("Switch ")] == [
        "Switch 1: one namespace",
        "Switch 2: the mode of everybody",
        "Switch 3: the webhooks",
    ]
    assert {"Undo 1", "Undo 2", "Undo 3"} <= BLOCKS.keys()


@pytest.mark.parametrize("heading", BLOCKS)
def test_each_block_of_commands_is_run_by_the_suite(heading):
    suite = pages.read("e2e/suites/outage/test_emergency.py")
    assert f'page.run("{heading}")' in suite


@pytest.mark.parametrize("heading", BLOCKS)
def test_each_block_is_shell_that_parses(heading):
    said = subprocess.run(["/bin/sh", "-n"], input=BLOCKS[heading], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")


def test_every_block_is_found():
    assert emergency().count("```sh\n") == len(BLOCKS)
