"""Each row about vllm serve finds what its proof refuses, and not the twin; tests/contract/vllm asks vLLM itself."""

from __future__ import annotations

import shlex
import tomllib

import pytest
from msgspec import field

from muster.strategies import upstream
from muster.strategies.documents.model import EnvVar
from muster.strategies.frameworks.vllm import model_shapes, serve_view, vllm_flags, vllm_servers
from muster.strategies.frameworks.vllm.serve_view import Circumstances, ServeView
from muster.strategies.launches import readings
from muster.strategies.launches.sites import Site
from muster.strategies.rules import judge, relations
from tests.support import row_problems

TEXTS = upstream.text("vllm", "rows.toml").split("\n[[row]]\n")[1:]
SHAPES = {
    name: model_shapes.Shape(name, 16, 8, 32768, is_dense=name == "dense", is_latent=False)
    for name in ("dense", "mixture", "")
}
"""What serve_probe.py has in the folders of these names."""


class Assumed(ServeView):
    """A server of which some facts are assumed."""

    facts: dict[str, object] = field(default_factory=dict)

    def value(self, name):
        return self.facts[name] if name in self.facts else super().value(name)


def findings(text, facts, line):
    words = shlex.split(line)
    start = words.index("vllm")
    env = dict(each.split("=", 1) for each in words[:start])
    site = Site(tuple(words[start:]), (), True, (), {}, tuple(EnvVar(name=name, value=env[name]) for name in env))
    (launch,) = readings.read(words[start:]).launches
    view = Assumed(vllm_servers.of_launch(launch, site.values), site, Circumstances())
    view.facts = facts
    return list(judge(relations.Rows(f"\n[[row]]\n{text}"), view))


def test_rows_name_flags_and_facts_that_exist():
    named = set()
    for row in map(tomllib.loads, TEXTS):
        flags, when = row["flag"], row.get("when", {})
        named |= {*(flags if isinstance(flags, list) else [flags]), *row.get("at", ()), *when}
        named |= {*row.get("needs", ()), *row.get("excludes", ()), *row.get("doubt", ())}
    plain = {name.partition(".")[0] for name in named} - {"env"} - serve_view._FACTS.keys()
    assert [name for name in plain if vllm_flags.spec(f"--{name}") is None] == []


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_row_finds_what_it_refuses_and_not_its_twin(text, monkeypatch):
    monkeypatch.setattr(model_shapes, "find", lambda name: SHAPES.get(name, SHAPES["dense"]))
    row = tomllib.loads(text)
    assert list(row_problems.of_row(row)) == []
    refused, taken = (findings(text, row.get("facts", {}), row[kind]) for kind in ("refused", "taken"))
    assert ([each.rule for each in refused], taken) == ([row["rule"]], [])
