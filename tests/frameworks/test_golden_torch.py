"""Trainer's own counting, copied exactly: every case of tests/golden/torch, as its Go code answered it."""

from __future__ import annotations

import pytest

from muster.strategies.documents import quantities
from muster.strategies.launches import topologies
from muster.strategies.trainer import resources
from tests.frameworks import golden
from tests.frameworks.builders import enforce, found, job_of

CASES = golden.cases("torch")
EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
REFUSED = "user: every reserved variable"
"""Trainer refuses this one, and its builder would write the user's values."""


def job(case):
    return job_of(case["trainjob"], golden.runtime("torch", case))


def env(case):
    return {entry["name"]: entry.get("value") for entry in case["wantEnv"] or ()}


@EVERY
def test_processes_per_node_are_counted_as_trainer_counts_them(case):
    if "trainer" in case["trainjob"]["spec"] and case["name"] != REFUSED:
        assert str(topologies.trainer_processes(job(case))) == env(case)["PET_NPROC_PER_NODE"]


@EVERY
def test_nodes_are_those_that_trainer_writes(case):
    if "trainer" in case["trainjob"]["spec"] and case["name"] != REFUSED:
        assert str(topologies.read_topology(job(case)).nodes) == env(case)["PET_NNODES"]


@EVERY
def test_gpus_are_counted_as_trainer_counts_them(case):
    place, trainer = job(case).container, job(case).trainer
    asked = place.container.resources if trainer.resources_per_node is None else trainer.resources_per_node
    assert resources.count_gpus(asked) == case["wantGPUs"]


@EVERY
def test_resources_are_merged_as_the_pods_get_them(case):
    own = job(case).container.container.resources
    merged = resources.written(resources.merge_resources(own, job(case).trainer.resources_per_node))
    for part in ("limits", "requests"):
        wanted = {name: quantities.value(text) for name, text in case["wantResources"].get(part, {}).items()}
        assert {name: quantities.value(text) for name, text in merged.get(part, {}).items()} == wanted
    assert bool(merged.get("claims")) == bool(case["wantResources"].get("claims"))


@EVERY
def test_what_trainer_refuses_is_refused(case):
    errors = {
        finding.field.partition("[")[0] for finding in found("torch", case["trainjob"], golden.runtime("torch", case))
    }
    refused = {error["field"] for error in case["wantErrors"] if error["field"] != "spec.runtimeRef.name"}
    assert refused <= errors


PINNED = {
    "runtime: mig-cpu": 1,
    "override: gpu4 with cpu": 4,
    "override: gpu4 with empty": 4,
    "override: gpu4 with memory": 4,
    "override: gpu4 with mig": 4,
    "override: cpu-both with memory": 2,
    "override: claims with memory": 4,
}


@EVERY
def test_a_count_is_pinned_exactly_where_trainer_is_wrong(case):
    trainer = enforce("torch", case["trainjob"], golden.runtime("torch", case)).document["spec"]["trainer"]
    written = case["trainjob"]["spec"].get("trainer", {}).get("numProcPerNode")
    assert trainer.get("numProcPerNode") == PINNED.get(case["name"], written)
