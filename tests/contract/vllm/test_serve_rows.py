"""Every row about vllm serve is true: vLLM refuses its command line and takes the twin, and Muster says the same."""

from __future__ import annotations

import json
import shlex

import pytest

from muster.strategies import upstream
from muster.strategies.frameworks.vllm import model_shapes, vllm_servers
from muster.strategies.frameworks.vllm.serve_view import Circumstances, ServeView
from muster.strategies.launches import readings
from muster.strategies.launches.sites import Site
from muster.strategies.rules import judge, rule_rows
from tests.support import row_problems

pytestmark = pytest.mark.thorough

ROWS = upstream.rows("vllm")
PROVEN = [row for row in ROWS if row.get("proof") != "none"]
GPUS = 8


@pytest.fixture(scope="module")
def answers(run_with_vllm):
    lines = [shlex.split(row[kind]) for row in PROVEN for kind in ("refused", "taken")]
    wrong = ["vllm", "serve", "dense", "--max-num-seqs", "8", "--max-num-batched-tokens", "8"]
    said = json.loads(run_with_vllm("serve_probe.py", request={"gpus": GPUS, "lines": [*lines, wrong]}))
    return dict(zip(map(tuple, [*lines, wrong]), said, strict=True))


def test_rows_have_the_form_of_rows():
    assert [(row["flag"], problem) for row in ROWS for problem in row_problems.of_row(row)] == []


def test_vllm_refuses_what_a_row_refuses(answers):
    false = [row["refused"] for row in PROVEN if not answers[tuple(shlex.split(row["refused"]))]]
    assert false == [], "vLLM takes these, so that the finding is false: delete the row"


def test_vllm_takes_the_twin_of_each_row(answers):
    found = {row["taken"]: answers[tuple(shlex.split(row["taken"]))] for row in PROVEN}
    assert {line: said for line, said in found.items() if said} == {}


def test_a_row_that_is_wrong_is_found(answers):
    assert answers["vllm", "serve", "dense", "--max-num-seqs", "8", "--max-num-batched-tokens", "8"] == ""


SHAPES = {
    name: model_shapes.Shape(name, 16, 8, 32768, is_dense=name == "dense", is_latent=False)
    for name in ("dense", "mixture", "")
}
"""What serve_probe.py has in the folders of these names."""


class Assumed(ServeView):
    """A server of which some facts are assumed."""

    facts: dict[str, object]

    def value(self, name):
        return self.facts[name] if name in self.facts else super().value(name)


def findings(row, line):
    words = shlex.split(line)
    start = words.index("vllm")
    env = [dict(zip(("name", "value"), each.split("=", 1), strict=True)) for each in words[:start]]
    site = Site(tuple(words[start:]), (), True, (), {}, tuple(env))
    (launch,) = readings.read(words[start:]).launches
    view = Assumed(vllm_servers.of_launch(launch, env), site, Circumstances())
    view.facts = row.get("facts", {})
    return list(judge(rule_rows.read([row]), view))


@pytest.mark.parametrize("row", PROVEN, ids=lambda row: f"{row['flag']} {row['refused'][-30:]}")
def test_a_row_finds_what_it_refuses_and_not_its_twin(row, monkeypatch):
    monkeypatch.setattr(model_shapes, "find", SHAPES.__getitem__)
    assert (len(findings(row, row["refused"])), findings(row, row["taken"])) == (1, [])
