"""What the axolotl strategy does to jobs, by Muster's own decision."""

from __future__ import annotations

import pytest
from muster_strategy_axolotl import AxolotlStrategy

from muster.testing import check_rules, make_runtime, make_trainjob, mutate, samples, validate

STRATEGY = AxolotlStrategy()
RUNTIME = make_runtime("axolotl")
LAUNCH = ["axolotl", "train", "config.yaml"]
MODULE = ["python", "-m", "axolotl.cli.main", "train", "config.yaml"]


def test_it_keeps_the_rules_of_mutation() -> None:
    check_rules(STRATEGY, samples("axolotl", LAUNCH, MODULE))


@pytest.mark.parametrize("launch", [LAUNCH, MODULE])
def test_a_training_of_several_processes_gets_torchrun(launch: list[str]) -> None:
    decision = mutate(STRATEGY, make_trainjob(command=launch, numNodes=2), RUNTIME)
    assert decision.document["spec"]["trainer"]["command"] == [*launch, "--launcher", "torchrun"]


def test_a_launcher_that_leaves_the_nodes_alone_is_refused() -> None:
    job = make_trainjob(command=[*LAUNCH, "--launcher", "accelerate"], numNodes=2)
    assert [finding.rule for finding in validate(STRATEGY, job, RUNTIME).findings] == ["axolotl/launcher"]
