"""Parallelism, completions and replicas: how many pods of a Job run at once, as Kubernetes counts them."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import jobset, training

COUNTS = {
    "both": ({"parallelism": 3, "completions": 3}, 1, "3"),
    "fewer completions": ({"parallelism": 4, "completions": 2}, 1, "2"),
    "several Jobs": ({"parallelism": 1, "completions": 1}, 4, "4"),
    "neither": ({"parallelism": None, "completions": None}, None, "1"),
    "a work queue": ({"parallelism": 3, "completions": None, "completionMode": "NonIndexed"}, None, "3"),
}


@pytest.mark.parametrize(("spec", "replicas", "nodes"), COUNTS.values(), ids=COUNTS)
def test_the_nodes_are_the_pods_that_run_at_once(spec, replicas, nodes):
    document, _ = sets.decided(jobset(training("node", replicas=replicas, **spec)))
    assert sets.env_of(document, "node")["PET_NNODES"] == nodes


def test_pods_that_take_turns_are_no_world_and_are_warned_of():
    document = jobset(training("node", parallelism=2, completions=6))
    assert sets.touched(document) == []
    assert sets.rules(document) == [("warning", "core/completions")]


def test_pods_that_run_one_after_another_are_trainings_of_their_own():
    document, found = sets.decided(jobset(training("node", parallelism=1, completions=6)))
    env = sets.env_of(document, "node")
    assert (env["PET_NNODES"], env["MASTER_ADDR"]) == ("1", "localhost")
    assert "PET_NODE_RANK" not in env
    assert found == []


EMPTY = {
    "no Job": ({"replicas": 0}, ".replicas"),
    "no pod at once": ({"parallelism": 0}, ".parallelism"),
    "no pod to complete": ({"completions": 0}, ".completions"),
}


@pytest.mark.parametrize(("spec", "where"), EMPTY.values(), ids=EMPTY)
def test_a_training_without_pods_is_warned_of(spec, where):
    (finding,) = sets.decided(jobset(training("node", **spec)))[1]
    assert (finding.rule, finding.field.endswith(where)) == ("core/no-pods", True)


def test_an_indexed_job_without_completions_is_warned_of():
    document = jobset(training("node", parallelism=2, completions=None))
    assert sets.rules(document) == [("warning", "core/completions")]


def test_a_number_of_pods_costs_nothing():
    document, _ = sets.decided(jobset(training("node", parallelism=10**9, completions=10**9)))
    assert sets.env_of(document, "node")["PET_NNODES"] == str(10**9)


def test_the_names_of_pods_without_an_index_are_cut_and_never_too_long():
    long = "x" * (63 - len("-node-0"))
    spec = {"completionMode": "NonIndexed", "parallelism": 2, "completions": None}
    assert ("error", "core/dns-name") not in sets.rules(jobset(training("node", **spec), name=long))
    assert ("error", "core/dns-name") in sets.rules(jobset(training("node", **spec), name=long + "x"))
