"""Runtimes of several replicated jobs: Trainer's own rule holds, and what it leaves out is said on the TrainJob."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import SERVE, TORCHRUN, container, part
from tests.support import jobs

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
TRAINER = {ANCESTOR: "trainer"}


def runtime(*parts, framework="torch", policy=None):
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "own", "labels": {"trainer.kubeflow.org/framework": framework}},
        "spec": {
            "mlPolicy": policy or {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [*parts]}},
        },
    }


def said(governing, **trainer):
    return sets.rules(jobs.make_trainjob(runtime="own", **trainer), governing)


def node(name="node", *before, labels=TRAINER, command=TORCHRUN, **more):
    return part(name, *before, container(*command, name="node", gpus=8), labels=labels, **more)


BESIDE = {
    "nothing": (),
    "an evaluator": (part("evaluator", container("python", "evaluate.py", gpus=1)),),
    "an evaluator of the same program": (part("evaluator", container(*TORCHRUN, "--eval", gpus=1)),),
    "a server": (part("vllm", container(*SERVE, gpus=1)),),
    "initializers": (
        part("dataset-initializer", container(name="dataset-initializer"), labels={ANCESTOR: "dataset-initializer"}),
    ),
}


@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
def test_parts_beside_the_training_are_not_talked_about(beside):
    assert said(runtime(*beside, node()), numNodes=2) == []


def test_a_sidecar_before_the_training_is_not_talked_about():
    assert said(runtime(node("node", container(name="istio-proxy"))), numNodes=2) == []


TOO_MANY = {
    "workers without the label": (node("leader"), node("workers", labels=None, pods=3)),
    "workers with the label": (node("leader"), node("workers")),
    "two with the label": (node("blue"), node("green", command=("torchrun", "other.py"))),
}


@pytest.mark.parametrize("parts", TOO_MANY.values(), ids=TOO_MANY)
def test_nodes_that_trainer_does_not_count_are_told_on_the_trainjob(parts):
    assert said(runtime(*parts), numNodes=1) == [("warning", "core/several-training-jobs")]


IGNORED = {
    "nothing": ({}, []),
    "another number of nodes": ({"numNodes": 4}, [("error", "core/runtime")]),
    "the number of nodes that it has": ({"numNodes": 2}, [("warning", "core/runtime")]),
    "an image": ({"image": "example.org/other:1"}, [("warning", "core/runtime")]),
}


@pytest.mark.parametrize(("trainer", "found"), IGNORED.values(), ids=IGNORED)
def test_what_a_trainjob_asks_of_a_runtime_without_the_label_is_ignored_by_trainer(trainer, found):
    assert said(runtime(node(labels=None, pods=2)), **trainer) == found
