"""A training of several replicated jobs: one world, whose ranks run through all of its pods."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import INDEX, jobset, part, training

PYTHON = ("python", "train.py")
GLOBAL = "metadata.annotations['jobset.sigs.k8s.io/job-global-index']"
GROUP = "metadata.annotations['jobset.sigs.k8s.io/job-group-index']"


def test_a_leader_and_its_workers_are_one_world_of_torchrun():
    document, found = sets.decided(jobset(training("leader"), training("workers", pods=3)))
    for job in ("leader", "workers"):
        env = sets.env_of(document, job)
        assert env["PET_NNODES"] == "4"
        assert env["PET_NPROC_PER_NODE"] == "8"
        assert env["PET_RDZV_BACKEND"] == "c10d"
        assert env["PET_RDZV_ENDPOINT"] == "set-leader-0-0.set:29500"
        assert env["MASTER_ADDR"] == "set-leader-0-0.set"
        assert env["MUSTER_EXPECTED_WORLD_SIZE"] == "32"
        assert "PET_NODE_RANK" not in env
    assert found == []


NAMES = [("leader", "workers"), ("master", "worker"), ("chief", "worker"), ("pytorch-master", "pytorch-worker")]


@pytest.mark.parametrize(("head", "body"), NAMES, ids=map("-".join, NAMES))
def test_a_head_and_a_body_of_one_program_train_together(head, body):
    assert sets.touched(jobset(training(head), training(body, pods=2))) == [(head, "main"), (body, "main")]


def test_the_pods_of_two_jobs_of_one_pod_have_literal_ranks():
    document, found = sets.decided(jobset(training("master", *PYTHON, gpus=1), training("worker", *PYTHON, gpus=1)))
    master, worker = sets.env_of(document, "master"), sets.env_of(document, "worker")
    assert (master["RANK"], worker["RANK"]) == (INDEX, "1")
    assert (master["PET_NODE_RANK"], worker["PET_NODE_RANK"]) == (INDEX, "1")
    assert {each["WORLD_SIZE"] for each in (master, worker)} == {"2"}
    assert {each["MASTER_ADDR"] for each in (master, worker)} == {"set-master-0-0.set"}
    assert "PET_RDZV_BACKEND" not in worker
    assert found == []


def test_jobs_of_one_pod_each_are_numbered_by_jobsets_global_index():
    document, found = sets.decided(
        jobset(training("master", *PYTHON, gpus=1), training("worker", *PYTHON, gpus=1, replicas=3))
    )
    assert sets.env_of(document, "worker")["RANK"] == GLOBAL
    assert sets.env_of(document, "master")["WORLD_SIZE"] == "4"
    assert found == []


def test_a_job_before_the_training_spoils_the_global_index_and_a_group_of_its_own_does_not():
    data = part("preprocess", sets.container("python", "tokenize.py"))
    leader, worker = training("leader", *PYTHON, gpus=1), training("worker", *PYTHON, gpus=1, replicas=3)
    _, found = sets.decided(jobset(data, leader, worker))
    assert [(finding.field, finding.rule) for finding in found] == [("spec.replicatedJobs", "torch/node-rank")]
    grouped = jobset(data, {**leader, "groupName": "ranks"}, {**worker, "groupName": "ranks"})
    document, found = sets.decided(grouped)
    assert sets.env_of(document, "worker")["RANK"] == GROUP
    assert found == []


def test_several_pods_behind_a_leader_have_no_rank_for_a_plain_program_and_are_warned_of():
    document, found = sets.decided(
        jobset(training("leader", *PYTHON, gpus=1), training("workers", *PYTHON, gpus=1, pods=3))
    )
    assert {finding.rule for finding in found} == {"torch/node-rank"}
    assert "leader and workers have no common numbering" in found[0].message
    assert "use one indexed Job of 4 pods" in found[0].message
    assert "RANK" not in sets.env_of(document, "workers")
    assert sets.env_of(document, "leader")["MASTER_ADDR"] == "set-leader-0-0.set"


def test_the_coordinators_job_has_the_first_ranks():
    document, found = sets.decided(
        jobset(
            training("workers", *PYTHON, gpus=1),
            training("leader", *PYTHON, gpus=1),
            coordinator={"replicatedJob": "leader", "jobIndex": 0, "podIndex": 0},
        )
    )
    assert (sets.env_of(document, "leader")["RANK"], sets.env_of(document, "workers")["RANK"]) == (INDEX, "1")
    assert sets.env_of(document, "workers")["MASTER_ADDR"] == "set-leader-0-0.set"
    assert found == []


def test_the_coordinator_makes_two_jobs_of_any_name_one_world():
    document = jobset(training("blue"), training("green", pods=2), coordinator={"replicatedJob": "blue"})
    assert sets.touched(document) == [("blue", "main"), ("green", "main")]


COUNTED = ("torchrun", "--nnodes=4", "--nproc_per_node=8", "train.py")


def test_a_number_of_nodes_that_only_both_jobs_have_makes_them_one_world():
    document = jobset(training("blue", *COUNTED), training("green", *COUNTED, pods=3))
    assert sets.touched(document) == [("blue", "main"), ("green", "main")]
    assert sets.rules(document) == []


@pytest.mark.parametrize(("workers", "said"), [(3, []), (2, [("warning", "core/nodes")] * 2)], ids=["all", "too few"])
def test_the_nodes_on_the_command_line_are_compared_with_the_pods_of_the_whole_world(workers, said):
    assert sets.rules(jobset(training("leader", *COUNTED), training("workers", *COUNTED, pods=workers))) == said


def test_a_master_that_both_name_makes_them_one_world():
    env = {"MASTER_ADDR": "set-blue-0-0.set", "MASTER_PORT": "1234"}
    document, _ = sets.decided(jobset(training("blue", env=env), training("green", env=env)))
    assert sets.env_of(document, "green")["PET_MASTER_PORT"] == "1234"


def test_jobs_that_rank_themselves_keep_their_ranks():
    leader = training("leader", "torchrun", "--node_rank=0", "--nnodes=2", "--master_addr=set-leader-0-0.set", "t.py")
    worker = training("worker", "torchrun", "--node_rank=1", "--nnodes=2", "--master_addr=set-leader-0-0.set", "t.py")
    document, found = sets.decided(jobset(leader, worker))
    assert "PET_RDZV_BACKEND" not in sets.env_of(document, "worker")
    assert found == []


def test_a_role_label_on_several_jobs_makes_them_one_world():
    document = jobset(training("blue", role="trainer"), training("green", pods=2, role="trainer"), training("red"))
    assert sets.touched(document) == [("blue", "main"), ("green", "main")]


def test_every_launch_of_a_world_is_corrected():
    sft = ("trl", "sft", "--model_name_or_path=m", "--dataset_name=d")
    document, _ = sets.decided(jobset(training("leader", *sft), training("workers", *sft, pods=3), framework="trl"))
    for job in document["spec"]["replicatedJobs"]:
        assert job["template"]["spec"]["template"]["spec"]["containers"][0]["command"][0] == "torchrun"


def test_jobs_with_unequal_devices_have_no_expected_world_size():
    document, _ = sets.decided(jobset(training("leader", gpus=4), training("workers", pods=2, gpus=8)))
    leader, workers = sets.env_of(document, "leader"), sets.env_of(document, "workers")
    assert (leader["PET_NPROC_PER_NODE"], workers["PET_NPROC_PER_NODE"]) == ("4", "8")
    assert "MUSTER_EXPECTED_WORLD_SIZE" not in leader | workers


def test_a_job_without_pods_is_not_waited_for():
    document, _ = sets.decided(jobset(training("leader"), training("workers", replicas=0)))
    assert sets.env_of(document, "leader")["PET_NNODES"] == "1"
    assert sets.touched(jobset(training("leader"), training("workers", pods=0))) == [("leader", "main")]


def test_a_node_without_devices_beside_others_with_some_is_warned_of():
    document = jobset(training("leader", gpus=0), training("workers", pods=2))
    assert sets.rules(document) == [("warning", "core/uneven-nodes")]


def test_jobs_of_several_pods_are_numbered_by_torchrun():
    document, found = sets.decided(jobset(training("workers", pods=3, replicas=2)))
    assert sets.env_of(document, "workers")["PET_RDZV_BACKEND"] == "c10d"
    assert sets.env_of(document, "workers")["PET_NNODES"] == "6"
    assert found == []


def test_a_leader_without_an_index_has_no_name_at_which_torchrun_could_meet():
    leader = training("leader", completionMode="NonIndexed", completions=None)
    document, found = sets.decided(jobset(leader, training("workers", pods=2)))
    assert "PET_RDZV_BACKEND" not in sets.env_of(document, "workers")
    assert {finding.rule for finding in found} == {"torch/node-rank"}


def test_numbered_trainers_are_one_world():
    document, found = sets.decided(jobset(training("trainer-0"), training("trainer-1")))
    assert (sets.env_of(document, "trainer-1")["PET_NODE_RANK"], found) == ("1", [])


def test_a_coordinator_that_is_not_rank_0_is_met_by_torchrun():
    coordinator = {"replicatedJob": "workers", "jobIndex": 0, "podIndex": 1}
    document, found = sets.decided(jobset(training("workers", pods=3), coordinator=coordinator))
    assert sets.env_of(document, "workers")["PET_RDZV_ENDPOINT"] == "set-workers-0-1.set:29500"
    assert found == []
    _, found = sets.decided(jobset(training("workers", *PYTHON, gpus=1, pods=3), coordinator=coordinator))
    assert [finding.rule for finding in found] == ["core/coordinator"]


def test_a_coordinator_that_is_no_part_of_the_training_is_warned_of():
    data = part("store", sets.container(image="redis:7"))
    document = jobset(training("trainer", pods=2), data, coordinator={"replicatedJob": "store"})
    assert sets.rules(document) == [("warning", "core/coordinator")]


def test_a_launch_that_muster_gives_a_rank_from_env_is_warned_of_where_there_is_none():
    sharded = ("trl", "sft", "--model_name_or_path=m", "--dataset_name=d", "--num_machines=4", "--use_fsdp")
    document = jobset(training("leader", *sharded), training("workers", *sharded, pods=3), framework="trl")
    assert sets.rules(document) == [("warning", "trl/node-rank")]


ACCELERATE = ("accelerate", "launch", "--multi_gpu", "--num_machines=2", "--num_processes=16")
MASTER = ("--main_process_ip=set-leader-0-0.set", "--main_process_port=29500", "train.py")


def test_machine_ranks_that_differ_from_job_to_job_are_right():
    leader, worker = (training(*name, *MASTER) for name in _ranked("0", "1"))
    assert sets.rules(jobset(leader, worker)) == []


@pytest.mark.parametrize("pods", [1, 2], ids=["in both jobs", "in all pods of one"])
def test_machine_ranks_that_nodes_share_are_refused(pods):
    leader, worker = (training(*name, *MASTER, pods=pods) for name in _ranked("0", "1" if pods > 1 else "0"))
    assert ("error", "core/launch") in sets.rules(jobset(leader, worker))


def _ranked(*ranks):
    return [
        (name, *ACCELERATE, f"--machine_rank={rank}") for name, rank in zip(("leader", "worker"), ranks, strict=True)
    ]


def test_node_ranks_that_two_jobs_share_are_refused():
    words = ("torchrun", "--node_rank=0", "--master_addr=set-leader-0-0.set", "train.py")
    assert ("error", "core/fixed-rank") in sets.rules(jobset(training("leader", *words), training("worker", *words)))


def test_a_launch_that_trains_alone_in_each_pod_gets_the_same_env_again():
    document = jobset(training("leader", "torchrun", "--standalone", "train.py"), training("worker", *sets.TORCHRUN))
    assert sets.env_of(sets.decided(document)[0], "leader")["PET_NNODES"] == "2"
