"""Every row about vllm serve is true: vLLM refuses its command line and takes the twin."""

from __future__ import annotations

import json
import shlex
import tomllib

import pytest

from muster.strategies import upstream

pytestmark = pytest.mark.thorough

ROWS = tomllib.loads(upstream.text("vllm", "rows.toml"))["row"]
PROVEN = [row for row in ROWS if row.get("proof") != "none"]
GPUS = 8


@pytest.fixture(scope="module")
def answers(run_with_vllm):
    lines = [shlex.split(row[kind]) for row in PROVEN for kind in ("refused", "taken")]
    wrong = ["vllm", "serve", "dense", "--max-num-seqs", "8", "--max-num-batched-tokens", "8"]
    said = json.loads(run_with_vllm("serve_probe.py", request={"gpus": GPUS, "lines": [*lines, wrong]}))
    return dict(zip(map(tuple, [*lines, wrong]), said, strict=True))


def test_vllm_refuses_what_a_row_refuses(answers):
    said = {row["refused"]: answers[tuple(shlex.split(row["refused"]))] for row in PROVEN}
    false = [(row["refused"], said[row["refused"]]) for row in PROVEN if row["says"] not in said[row["refused"]]]
    assert false == [], "vLLM takes these, or refuses them for another reason: delete or correct the row"


def test_vllm_takes_the_twin_of_each_row(answers):
    found = {row["taken"]: answers[tuple(shlex.split(row["taken"]))] for row in PROVEN}
    assert {line: said for line, said in found.items() if said} == {}


def test_a_row_that_is_wrong_is_found(answers):
    assert answers["vllm", "serve", "dense", "--max-num-seqs", "8", "--max-num-batched-tokens", "8"] == ""
