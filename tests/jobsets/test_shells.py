"""The training of a JobSet is found through shells and wrappers as it is found bare."""

from __future__ import annotations

from tests.jobsets import sets
from tests.jobsets.sets import SERVE, TORCHRUN, container, jobset, part, training


def shell(text):
    return ("bash", "-c", text)


def test_a_sidecar_in_a_shell_is_not_the_training():
    tail = container(*shell("tail -n+1 -F /logs/x"), name="view")
    app = container(*shell("set -e\npip install x\ntorchrun train.py"), name="app")
    assert sets.touched(jobset(part("job", tail, app, pods=2))) == [("job", "app")]


def test_a_leader_and_its_workers_in_shells_are_one_world_of_torchrun():
    text = shell("cd /app && exec torchrun --nnodes=4 train.py")
    document, found = sets.decided(jobset(training("leader", *text), training("workers", *text, pods=3)))
    assert sets.env_of(document, "workers")["PET_RDZV_BACKEND"] == "c10d"
    assert [each for each in found if each.rule != "torch/not-enforced"] == []


def test_ranks_that_a_shell_computes_are_kept():
    words = "torchrun --nnodes=4 --node_rank={} --master_addr=set-leader-0-0.set train.py"
    leader = training("leader", *shell(words.format(0)))
    workers = training("workers", *shell(words.format("$((JOB_COMPLETION_INDEX+1))")), pods=3)
    document, found = sets.decided(jobset(leader, workers))
    assert "PET_RDZV_BACKEND" not in sets.env_of(document, "workers")
    assert [each for each in found if each.rule.endswith("node-rank")] == []


def test_ranks_that_a_shell_exports_are_kept():
    leader = training("leader", *shell("export RANK=0; python train.py"), gpus=1)
    workers = training("workers", *shell("export RANK=$((JOB_COMPLETION_INDEX+1)); python train.py"), pods=3, gpus=1)
    document, found = sets.decided(jobset(leader, workers))
    assert "PET_RDZV_BACKEND" not in sets.env_of(document, "workers")
    assert [each for each in found if each.rule.endswith("node-rank")] == []


def test_a_plain_program_in_a_shell_that_needs_a_rank_is_warned_of():
    text = shell("cd /app; python train.py")
    document = jobset(training("leader", *text, gpus=1), training("workers", *text, pods=3, gpus=1))
    assert ("warning", "torch/node-rank") in sets.rules(document)


def test_a_cluster_that_a_shell_starts_is_left_alone():
    head = training("head", *shell("ray start --head --block"))
    workers = training("workers", *shell("ray start --address=set-head-0-0.set:6379 --block"), pods=2)
    assert sets.rules(jobset(head, workers)) == [("note", "core/remote-launch")]


def test_a_launcher_over_ssh_that_a_shell_starts_is_left_alone():
    launcher = part("launcher", container(*shell("sleep 10 && mpirun -np 16 python train.py")))
    workers = part("worker", container(*shell("service ssh start; sleep infinity"), gpus=8), pods=2)
    assert sets.touched(jobset(launcher, workers)) == []
    assert set(sets.rules(jobset(launcher, workers))) == {
        ("note", "core/remote-launch"),
        ("warning", "core/endless-part"),
    }


def test_deepspeed_with_a_hostfile_that_is_not_named_starts_the_others_too():
    launcher = part("launcher", container("deepspeed", "train.py"))
    document = jobset(launcher, part("worker", container("/usr/sbin/sshd", "-D", gpus=8), pods=2))
    document["spec"]["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    (note,) = sets.decided(document)[1]
    assert (note.severity.value, note.rule) == ("note", "core/remote-launch")
    assert "launcher starts the processes in the other pods itself" in note.message


def test_a_server_that_a_shell_prepares_is_a_server():
    server = training("one", *shell("python download.py && vllm serve /model"))
    other = training("two", *shell("exec vllm serve /model"))
    router = part("router", container(*shell("python router.py")))
    trains = training("three", *shell("torchrun train.py"), pods=2)
    assert sets.touched(jobset(server, trains)) == [("three", "main")]
    document = jobset(server, other, router, framework="vllm")
    assert [rule for rule in sets.rules(document) if rule[1] == "core/no-training-job"] == []


def test_a_wrapper_around_a_launch_hides_nothing():
    text = ("uv", "run", *TORCHRUN)
    assert sets.touched(jobset(training("blue", *text, pods=2), training("server", *SERVE))) == [("blue", "main")]
