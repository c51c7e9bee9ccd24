"""The configuration in docs/sharing.md does to the example what the document says."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from muster.webhook import kubeyaml
from muster.webhook.cli.main import main
from tests.roles import places

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "manifests/examples/18-trainer-and-samplers.yaml"


@pytest.fixture
def muster(capsys, tmp_path, monkeypatch):
    """Run `muster COMMAND` on the example, under the configuration of the document."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/sharing.md").read_text(), re.DOTALL)
    (text,) = (block for block in blocks if "\nroles:" in block)
    config = tmp_path / "muster.yaml"
    config.write_text(text)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))

    def run(command, *more):
        code = main([command, "-f", str(EXAMPLE), "--config", str(config), *more])
        return code, capsys.readouterr().out

    return run


def test_explain_says_of_each_placement_which_rule_made_it_and_whose_word_it_was(muster):
    _, out = muster("explain", "-o", "json")
    trainjob, trainer, samplers = json.loads(out)
    assert [each["kind"] for each in (trainjob, trainer, samplers)] == ["TrainJob", "JobSet", "JobSet"]
    assert not [change for change in trainjob["changes"] if change["rule"].startswith("roles/")]
    reasons = [{change["rule"]: change["reason"] for change in each["changes"]} for each in (trainer, samplers)]
    placing = {"roles/label", "roles/node-affinity", "roles/anti-affinity", "roles/tolerations"}
    assert placing <= set(reasons[0])
    assert {*placing, "roles/spread", "roles/memory"} <= set(reasons[1])
    placed = "role trainer, set by the TrainJob's label, runs on nodes with pool=training"
    assert reasons[0]["roles/node-affinity"] == placed
    tainted = "role sampler, set by the replicated job's label, runs on nodes tainted dedicated=sampler:NoSchedule"
    assert reasons[1]["roles/tolerations"] == tainted
    assert "profile session" in reasons[1]["roles/memory"]


def test_the_users_zone_and_the_roles_pool_are_both_required(muster):
    _, out = muster("render")
    (samplers,) = (each.value for each in kubeyaml.load_all(out) if each.value["kind"] == "JobSet")
    required = places.pod_of(samplers)["spec"]["affinity"]["nodeAffinity"][places.REQUIRED]
    (term,) = required["nodeSelectorTerms"]
    assert [each["key"] for each in term["matchExpressions"]] == ["topology.kubernetes.io/zone", "pool"]
    container = places.pod_of(samplers)["spec"]["containers"][0]
    assert container["resources"]["requests"]["memory"] == "16Gi"


def test_every_rule_of_placement_is_in_the_document():
    text = (ROOT / "docs/sharing.md").read_text()
    for word in ("nodeLabels", "tolerations", "apart", "spread", "profile", "memory", "muster.dev/role"):
        assert f"`{word}`" in text or f"`{word}:" in text
