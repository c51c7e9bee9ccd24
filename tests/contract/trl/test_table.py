"""The committed table is the installed TRL's, flag for flag."""

from __future__ import annotations

import json

import pytest

from muster.strategies import upstream
from muster.strategies.frameworks.trl import flags

FIND = "import importlib.util as u, json, sys; print(json.dumps([bool(u.find_spec(n)) for n in sys.argv[1:]]))"


def flat(value, path=()):
    """Every leaf of the table by its path, so that a difference is told by the name of the flag that moved."""
    if isinstance(value, dict) and not (len(path) > 1 and "nargs" in value):
        return {place: leaf for name, each in value.items() for place, leaf in flat(each, (*path, name)).items()}
    return {" ".join(path): value}


@pytest.fixture(scope="module")
def committed():
    return upstream.text("trl", "flags.json")


@pytest.fixture(scope="module")
def generated(run_with_trl):
    return run_with_trl("generate.py")


def test_the_table_is_the_one_of_the_installed_trl(committed, generated):
    ours, theirs = flat(json.loads(committed)), flat(json.loads(generated))
    moved = {place: (ours.get(place), theirs.get(place)) for place in ours.keys() | theirs.keys()}
    moved = {place: pair for place, pair in sorted(moved.items()) if pair[0] != pair[1]}
    assert not moved, f"committed and installed differ in {sorted(moved)}: run generate.py again and read what changed"
    assert committed == generated, "same facts, other layout: write the file with generate.py"


def test_every_method_is_a_module_that_torchrun_can_run(run_with_trl):
    names = [f"trl.scripts.{method}" for method in sorted(flags.methods())]
    assert all(json.loads(run_with_trl("-c", FIND, *names)))


def test_trl_cannot_be_run_as_a_module(run_with_trl):
    assert json.loads(run_with_trl("-c", FIND, "trl.__main__", "trl.cli.__main__", "trl.cli.main")) == [
        False,
        False,
        True,
    ]
