"""`spec.trainer` of a TrainJob: made to exist, and its process count pinned only where Trainer would be wrong."""

from __future__ import annotations

import pytest

from tests.frameworks.builders import GPU, enforce, gpus, jobset, replicated_job, runtime, trainjob

TORCHRUN = {"command": ["torchrun", "x.py"]}
MIG = "nvidia.com/mig-1g.10gb"
CLAIM = {
    "resources": {"claims": [{"name": "gpu"}], "requests": {"cpu": 16}},
    "pod": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]},
}


def pinned(trainer, governing, **more):
    out = enforce("torch", trainjob(TORCHRUN | trainer), governing, **more)
    return out, out.document["spec"]["trainer"].get("numProcPerNode")


WRONG = {
    "GPUs behind an override of memory": (
        {"resourcesPerNode": {"limits": {"memory": "1Gi"}}},
        {"resources": gpus(4)},
        4,
        "the pods keep the runtime's GPUs: it would start 1 processes per node instead of 4",
    ),
    "GPUs behind an override of CPUs": (
        {"resourcesPerNode": {"requests": {"cpu": 16}}},
        {"resources": gpus(4)},
        4,
        "it would start 16 processes per node instead of 4",
    ),
    "CPUs behind an override of memory": (
        {"resourcesPerNode": {"limits": {"memory": "1Gi"}}},
        {"resources": {"limits": {"cpu": 8}}},
        8,
        "the pods keep the runtime's CPUs",
    ),
    "a MIG slice beside CPUs": (
        {"resourcesPerNode": {"limits": {MIG: 1, "cpu": 16}}},
        {},
        1,
        "Trainer does not count MIG slices: it would start 16 processes per node instead of 1",
    ),
    "another maker's accelerators": (
        {"resourcesPerNode": {"limits": {"habana.ai/gaudi": 8, "cpu": 96}}},
        {},
        8,
        "Trainer counts only resources with gpu in their name: it would start 96 processes per node instead of 8",
    ),
    "a claim": ({}, CLAIM, 2, "Trainer does not count devices of a ResourceClaim"),
}


@pytest.mark.parametrize(("trainer", "governing", "count", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_count_is_pinned_with_its_cause(trainer, governing, count, reason):
    out, number = pinned(trainer, runtime(**governing), claims={"two": 2})
    assert number == count
    (change,) = out.changes
    assert (change.op, change.path, change.rule) == ("add", "/spec/trainer/numProcPerNode", "torch/processes")
    assert reason in change.reason


RIGHT = {
    "GPUs of the runtime": ({}, {"resources": gpus(4)}),
    "GPUs of the job": ({"resourcesPerNode": gpus(2)}, {"resources": gpus(4)}),
    "CPUs": ({"resourcesPerNode": {"requests": {"cpu": 3}}}, {}),
    "nothing": ({}, {}),
    "GPUs beside memory of GPUs": ({"resourcesPerNode": {"limits": {GPU: 1, "nvidia.com/gpumem": 9}}}, {}),
    "memory of a GPU, which torchrun counts itself": (
        {"resourcesPerNode": {"limits": {"aliyun.com/gpu-mem": 16, "cpu": 8}}},
        {},
    ),
    "as many GPUs as CPUs in the override": ({"resourcesPerNode": {"requests": {"cpu": 4}}}, {"resources": gpus(4)}),
    "a MIG slice without CPUs": ({"resourcesPerNode": {"limits": {MIG: 1}}}, {}),
}


@pytest.mark.parametrize(("trainer", "governing"), RIGHT.values(), ids=RIGHT)
def test_a_right_count_is_left_to_trainer(trainer, governing):
    out, number = pinned(trainer, runtime(**governing))
    assert (number, len(out.changes), out.warnings) == (None, 0, [])


@pytest.mark.parametrize(("trainer", "governing", "count", "reason"), WRONG.values(), ids=WRONG)
def test_a_number_that_somebody_wrote_is_never_changed(trainer, governing, count, reason):
    out, number = pinned(trainer | {"numProcPerNode": 7}, runtime(**governing), claims={"two": 2})
    assert (number, len(out.changes), out.warnings) == (7, 0, [])


UNKNOWN = {
    "a claim": ({}, CLAIM, "the claim's number of devices is not known"),
    "another maker's accelerator": (
        {"resourcesPerNode": {"limits": {"google.com/tpu": 8, "cpu": 16}}},
        {},
        "the number of devices behind the resources is not known",
    ),
}


@pytest.mark.parametrize(("trainer", "governing", "words"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_count_that_nobody_can_know_is_asked_for(trainer, governing, words):
    out, number = pinned(trainer, runtime(**governing))
    assert (number, len(out.changes)) == (None, 0)
    (finding,) = out.changes.findings
    assert finding.field == "spec.trainer.numProcPerNode"
    assert words in finding.message
    assert "one process per CPU (16)" in finding.message


def test_slices_that_no_process_can_reach_are_named():
    out, number = pinned({"resourcesPerNode": {"limits": {MIG: 3, "cpu": 16}}}, runtime())
    assert number == 1
    assert "2 would be idle" in out.warnings[0]


def test_a_missing_trainer_section_is_added_with_the_reason():
    out = enforce("torch", trainjob(None), runtime())
    assert out.document["spec"]["trainer"] == {}
    assert [(change.op, change.path) for change in out.changes] == [("add", "/spec/trainer")]
    assert "every node trains alone" in out.reasons


def test_a_null_trainer_section_is_a_missing_one():
    document = trainjob({})
    document["spec"]["trainer"] = None
    assert enforce("torch", document, runtime()).document["spec"]["trainer"] == {}


NOT_OURS = {
    "a section that is there": (trainjob({}), runtime()),
    "a runtime of another policy": (trainjob(None), runtime(policy={"mpi": {"numProcPerNode": 1}})),
    "an unknown runtime": (trainjob(None), None),
}


@pytest.mark.parametrize(("document", "governing"), NOT_OURS.values(), ids=NOT_OURS)
def test_no_trainer_section_is_added_to(document, governing):
    assert len(enforce("torch", document, governing).changes) == 0


def test_nothing_is_counted_for_a_runtime_that_trainer_gives_no_env():
    resources = {"limits": {"habana.ai/gaudi": 8, MIG: 2, "cpu": 16}}
    out = enforce("torch", trainjob({"resourcesPerNode": resources}), runtime(policy={"mpi": {}}))
    assert (len(out.changes), [rule for rule in out.rules if rule != "torch/not-enforced"]) == (0, [])


def test_a_section_and_its_count_are_added_together():
    out = enforce("torch", trainjob(None), runtime(**CLAIM), claims={"two": 2})
    assert out.document["spec"]["trainer"] == {"numProcPerNode": 2}


def test_nothing_is_pinned_on_a_jobset():
    document = jobset(replicated_job("node", {"name": "node", "resources": {"limits": {MIG: 2, "cpu": 8}}}))
    assert "trainer" not in enforce("torch", document).document["spec"]
