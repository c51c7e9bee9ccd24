"""Rules of torchrun and accelerate that are rows: each speaks of what it refuses and not of its twin."""

from __future__ import annotations

import shlex
import tomllib

import pytest

from muster.strategies import upstream
from muster.strategies.launches import launches, variables
from tests.support import row_problems

ROWS = [
    (package, row)
    for package in ("torch", "accelerate")
    for row in tomllib.loads(upstream.text(package, "rows.toml"))["row"]
]


def told(package, row, line):
    words = shlex.split(line)
    start = next(index for index, word in enumerate(words) if "=" not in word)
    launch, env = launches.parse(words[start:]), dict(word.split("=", 1) for word in words[:start])
    found = [*variables.refused_settings(launch), *variables.refused_variables(launch, env, package)]
    named = [row["flag"]] if isinstance(row["flag"], str) else row["flag"]
    return [message for name, _, message in found if {name, f"env.{name}"} & set(named)]


@pytest.mark.parametrize(("package", "row"), ROWS, ids=lambda each: each if isinstance(each, str) else each["refused"])
def test_a_row_is_well_formed_and_speaks_of_its_refused_line_alone(package, row):
    assert not list(row_problems.of_row(row))
    assert told(package, row, row["refused"])
    assert not told(package, row, row["taken"])
