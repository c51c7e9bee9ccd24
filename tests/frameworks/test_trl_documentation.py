"""trl: what its documentation tells people to run is never refused on a node that has what it asks for."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import enforce, found, gpus, runtime, trainjob

LINES = [
    line
    for line in (Path(__file__).parent / "trl_documentation.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
OWN = [line for line in LINES if line.startswith("trl ")]
TRL = runtime("trl")


def devices(line):
    """The GPUs that a line is written for; a preset of trl starts 8 processes."""
    written = re.search(r"--num_processes (\d+)|_(\d)gpu|vllm-serve .*--tensor-parallel-size (\d+)", line)
    return int(written[1] or written[2] or written[3]) if written else 8 if "--accelerate_config" in line else 1


def severities(trainer):
    document = trainjob(trainer)
    return {each.severity for each in found("trl", enforce("trl", document, TRL).document, TRL)}


@pytest.mark.parametrize("line", LINES)
def test_a_documented_line_is_not_refused(line):
    trainer = {"command": shlex.split(line), "resourcesPerNode": gpus(devices(line))}
    assert Severity.ERROR not in severities(trainer)
    assert Severity.ERROR not in severities(trainer | {"command": ["bash", "-c", line]})


@pytest.mark.parametrize("line", OWN)
def test_a_documented_line_of_trl_has_nothing_to_warn_of_on_one_node_or_two(line):
    trainer = {"command": shlex.split(line), "resourcesPerNode": gpus(devices(line))}
    for nodes in (1, 2):
        assert not severities(trainer | {"numNodes": nodes}) - {Severity.NOTE}


def test_there_are_at_least_as_many_lines_as_there_were():
    assert len(LINES) >= 191
    assert len(OWN) >= 50
