"""Ray: one pod starts the program, and Ray starts the processes of it in the pods that joined."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import jobset, part, training

JOIN = "ray start --address=set-head-0-0.set:6379 --block"
DRIVERS = {
    "a program": "ray start --head --port=6379 && python train_ray.py",
    "a program that is followed by a stop": "ray start --head\npython3 -m verl.trainer.main_ppo nnodes=5\nray stop",
    "a script": "ray start --head; bash run_grpo.sh",
    "a submission": "ray start --head; ray job submit --address=http://127.0.0.1:8265 -- python train.py",
}
SHARED = {
    "a program": 'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then {head}; else {join}; fi',
    "joined first": 'if [ "$JOB_COMPLETION_INDEX" != 0 ]; then {join}; else {head}; fi',
}


def said(document):
    return [(each.severity.value, each.rule, each.value) for each in sets.decided(document)[1]]


@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
@pytest.mark.parametrize("first", [True, False], ids=["head first", "workers first"])
def test_the_pod_with_the_program_is_named_as_the_one_that_starts_the_processes(driver, first):
    head, workers = part("head", sets.container("bash", "-c", driver)), training("worker", "bash", "-c", JOIN, pods=4)
    document = jobset(*((head, workers) if first else (workers, head)))
    assert sets.touched(document) == []
    assert said(document) == [("note", "core/remote-launch", "head")]


@pytest.mark.parametrize("driver", [*DRIVERS.values(), "ray start --head --block"], ids=[*DRIVERS, "none yet"])
@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_one_room_whose_first_pod_is_the_head_is_a_training(driver, shared):
    document = jobset(training("node", "bash", "-c", shared.format(head=driver, join=JOIN), pods=2))
    found = sets.decided(document)[1]
    assert "core/no-training-job" not in {each.rule for each in found}
    assert "MUSTER_EXPECTED_WORLD_SIZE" not in sets.env_of(sets.decided(document)[0], "node")
    assert {each.severity.value for each in found} <= {"note"} or "run_grpo.sh" in driver


def test_a_cluster_of_ray_without_a_program_waits_for_one():
    head = training("head", "ray", "start", "--head", "--block")
    document = jobset(head, training("worker", "bash", "-c", JOIN, pods=2))
    (note,) = sets.decided(document)[1]
    assert (note.rule, note.value) == ("core/remote-launch", "head")
    assert "something else starts" in note.message


def test_a_shell_that_also_runs_what_cannot_be_seen_is_not_said_to_start_no_training():
    command = "trl vllm-serve --model m & bash train.sh"
    found = sets.decided(jobset(training("node", "bash", "-c", command)))[1]
    assert "core/no-training-job" not in {each.rule for each in found}


def test_a_preparation_before_the_pod_joins_is_no_program_of_the_head():
    head = training("head", "bash", "-c", DRIVERS["a program"])
    joined = training("worker", "bash", "-c", f"python wait_for_head.py; {JOIN}", pods=2)
    assert said(jobset(joined, head)) == [("note", "core/remote-launch", "head")]
