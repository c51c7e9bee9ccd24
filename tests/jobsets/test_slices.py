"""MIG slices: CUDA shows a process one of them, so a pod of a JobSet has others for nothing."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import TORCHRUN, container, jobset, part

MIG = "nvidia.com/mig-1g.10gb"


def sliced(count, *command, pods=2, name="main", framework="torch", **more):
    own = container(*command, name=name, **more) | {"resources": {"limits": {MIG: count}}}
    return jobset(part("job", own, pods=pods), framework=framework)


def said(document):
    return [(each.severity.value, each.rule) for each in sets.decided(document)[1] if each.rule.endswith("/mig")]


@pytest.mark.parametrize("pods", [1, 2])
@pytest.mark.parametrize(
    ("framework", "command"),
    [("torch", TORCHRUN), ("torch", ("sh", "-c", "torchrun x.py")), ("trl", ("trl", "sft", "--model_name_or_path=m"))],
)
def test_slices_that_no_process_reaches_are_warned_of(framework, command, pods):
    document = sliced(3, *command, pods=pods, framework=framework)
    assert said(document) == [("warning", f"{framework}/mig")]
    (finding,) = [each for each in sets.decided(document)[1] if each.rule.endswith("/mig")]
    assert "2 would be idle" in finding.message
    assert finding.field.endswith("containers[main].resources")


def test_one_slice_is_right():
    assert said(sliced(1, *TORCHRUN)) == []


@pytest.mark.parametrize(
    "env", ["CUDA_VISIBLE_DEVICES=MIG-1 python a.py & CUDA_VISIBLE_DEVICES=MIG-2 python b.py; wait"]
)
def test_programs_that_choose_a_slice_each_are_right(env):
    assert said(sliced(2, "bash", "-c", env)) == []


def test_each_replicated_job_is_looked_at():
    leader, worker = (
        part(name, container(*TORCHRUN) | {"resources": {"limits": {MIG: count}}}, pods=pods)
        for name, count, pods in (("leader", 1, 1), ("worker", 2, 3))
    )
    assert said(jobset(leader, worker)) == [("warning", "torch/mig")]
