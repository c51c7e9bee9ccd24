"""Replicated jobs that are no part of the training: nothing is written into them."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import SERVE, container, jobset, part, training

GRPO = ("trl", "grpo", "--model_name_or_path=m", "--dataset_name=d", "--reward_funcs=r")
BYSTANDERS = {
    "an evaluator": training("evaluator", "python", "evaluate.py", gpus=1),
    "an evaluator of the same program": training("evaluator", "torchrun", "train.py", "--eval_only"),
    "a server of vllm": training("server", *SERVE),
    "a server of trl": training("rollout", "trl", "vllm-serve", "--model", "m"),
    "a tensorboard": part("tensorboard", container("tensorboard", "--logdir=/logs")),
    "a store": part("redis", container(image="redis:7")),
    "a download": part("download", container("python", "download.py")),
    "a sampler by its role": training("other", *sets.TORCHRUN, role="sampler"),
}


@pytest.mark.parametrize("bystander", BYSTANDERS.values(), ids=BYSTANDERS)
@pytest.mark.parametrize("name", ["trainer", "llama"])
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_beside_the_training_stays_as_it_is(bystander, name, first):
    trains = training(name, pods=2)
    jobs = (bystander, trains) if first else (trains, bystander)
    assert sets.touched(jobset(*jobs)) == [(name, "main")]
    endless = {("warning", "core/endless-part")} if bystander is BYSTANDERS["a tensorboard"] else set()
    assert set(sets.rules(jobset(*jobs))) <= {("note", "core/unchecked-part"), *endless}


def test_a_trainer_and_its_vllm_in_one_jobset_of_trl():
    document, _ = sets.decided(jobset(training("vllm", *SERVE, gpus=2), training("policy", *GRPO), framework="trl"))
    server = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert server == container(*SERVE, gpus=2)
    assert sets.env_of(document, "policy")["PET_NPROC_PER_NODE"] == "8"


def test_a_prefill_and_a_decode_server_are_both_completed_and_do_not_meet():
    document, _ = sets.decided(
        jobset(
            part("router", container("python", "router.py")),
            training("prefill", *SERVE, gpus=2),
            training("decode", *SERVE, gpus=4, pods=3),
            framework="vllm",
        )
    )
    router, prefill, decode = (
        job["template"]["spec"]["template"]["spec"]["containers"][0] for job in document["spec"]["replicatedJobs"]
    )
    assert router == container("python", "router.py")
    for server, size in ((prefill, "2"), (decode, "4")):
        assert server["command"] + server.get("args", []) == [
            *SERVE,
            "--host",
            "0.0.0.0",  # what is written
            "--port",
            "8000",
            "--tensor-parallel-size",
            size,
        ]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(server)
        assert "env" not in server


def test_a_launcher_over_ssh_and_its_workers_are_left_alone_and_that_is_said():
    launcher = part("launcher", container("mpirun", "-np", "16", "python", "train.py"))
    workers = part("worker", container("/usr/sbin/sshd", "-D", gpus=8), pods=2)
    assert sets.touched(jobset(launcher, workers)) == []
    assert set(sets.rules(jobset(launcher, workers))) == {
        ("note", "core/remote-launch"),
        ("warning", "core/endless-part"),
    }


@pytest.mark.parametrize("words", [("--hostfile", "/hosts"), ("--hostfile=/hosts",), ("-H", "/hosts")])
def test_deepspeed_with_a_hostfile_starts_the_others_whatever_their_image_runs(words):
    launcher = part("launcher", container("deepspeed", *words, "train.py", gpus=8))
    workers = part("worker", container(gpus=8), pods=2)
    assert sets.touched(jobset(launcher, workers)) == []
    (note,) = sets.decided(jobset(launcher, workers))[1]
    assert (note.severity.value, note.rule, note.value) == ("note", "core/remote-launch", "launcher")
    assert "launcher starts the processes in the other pods itself" in note.message


NOT_REMOTE = {
    "each node by itself": ("deepspeed", "--no_ssh", "--hostfile=/hosts", "train.py"),
    "the program's own option": ("deepspeed", "train.py", "--hostfile=/hosts", "-H", "4"),
}


@pytest.mark.parametrize("command", NOT_REMOTE.values(), ids=NOT_REMOTE)
def test_deepspeed_that_reaches_no_other_pod_is_the_training(command):
    launcher = part("launcher", container(*command, gpus=8))
    workers = part("worker", container(gpus=8), pods=2)
    assert "core/remote-launch" not in [rule for _, rule in sets.rules(jobset(launcher, workers))]


def test_a_cluster_of_ray_is_left_alone_and_that_is_said():
    head = training("head", "ray", "start", "--head", "--block")
    workers = training("workers", "ray", "start", "--address=set-head-0-0.set:6379", "--block", pods=2)
    assert sets.touched(jobset(head, workers)) == []
    assert sets.rules(jobset(head, workers)) == [("note", "core/remote-launch")]


def test_two_trainings_that_do_not_say_that_they_are_one_are_left_alone_and_warned_of():
    document = jobset(training("blue", "torchrun", "a.py"), training("green", "torchrun", "b.py"))
    assert sets.decided(document)[0] == document
    (finding,) = sets.decided(document)[1]
    assert (finding.rule, finding.value) == ("core/several-training-jobs", "blue, green")
    assert "muster.dev/role: trainer" in finding.message
    chosen = jobset(training("blue", "torchrun", "a.py", role="trainer"), training("green", "torchrun", "b.py"))
    assert sets.touched(chosen) == [("blue", "main")]
    assert sets.rules(chosen) == []


def test_a_sweep_of_one_program_is_not_made_one_training():
    document = jobset(training("blue", env={"LR": "1"}), training("green", env={"LR": "2"}))
    assert sets.decided(document)[0] == document
    assert sets.rules(document) == [("warning", "core/several-training-jobs")]


@pytest.mark.parametrize("framework", ["torch", "trl", "torchtune", "vllm"])
def test_a_labelled_jobset_without_a_part_that_muster_finds_is_warned_of(framework):
    document = jobset(
        part("redis", container(image="redis:7")), part("logs", container("tail", "-F", "/x")), framework=framework
    )
    assert sets.decided(document)[0] == document
    assert [rule for rule in sets.rules(document) if rule[1].startswith("core/")] == [
        ("warning", "core/endless-part"),
        ("warning", "core/no-training-job"),
    ]


@pytest.mark.parametrize(("framework", "what", "role"), [("torch", "trains", "trainer"), ("vllm", "serves", "sampler")])
def test_the_warning_says_what_was_looked_for_and_which_label_names_it(framework, what, role):
    document = jobset(part("redis", container(image="redis:7")), part("logs", container()), framework=framework)
    (finding,) = [each for each in sets.decided(document)[1] if each.rule == "core/no-training-job"]
    assert finding.message.startswith(f"Muster found no replicated job that {what}, and changed nothing")
    assert finding.message.endswith(f"with muster.dev/role: {role}")


def test_only_what_is_labelled_as_a_sampler_is_one_where_others_serve_too():
    served = training("mine", *SERVE, role="sampler"), training("other", *SERVE), training("no", *SERVE, role="judge")
    assert sets.touched(jobset(*served, framework="vllm")) == [("mine", "main")]
    assert sets.touched(jobset(*served[1:], framework="vllm")) == [("other", "main")]


def test_servers_of_one_image_are_completed_together_whichever_of_them_holds_devices():
    image = "ghcr.io/muster-dev/vllm:0.1.0"
    first, second = (part(name, container(image=image, gpus=gpus)) for name, gpus in (("one", 1), ("two", 0)))
    document, _ = sets.decided(jobset(first, second, framework="vllm"))
    assert sets.touched(jobset(first, second, framework="vllm")) == [("one", "main"), ("two", "main")]
    assert sets.decided(document)[0] == document


def test_a_jobset_without_a_label_is_not_talked_about():
    document = jobset(part("redis", container(image="redis:7")), part("web", container("nginx")), framework=None)
    assert sets.rules(document) == []


TYPE = "training.kubeflow.org/replica-type"


def test_the_replica_types_of_the_training_operator_are_understood():
    document = jobset(
        training("a", labels={TYPE: "master"}),
        training("b", pods=2, labels={TYPE: "worker"}),
        training("c", labels={TYPE: "evaluator"}),
    )
    assert sets.touched(document) == [("a", "main"), ("b", "main")]


def test_a_job_called_trainer_is_not_chosen_over_another_of_the_same_program():
    document = jobset(training("trainer"), training("helpers", pods=2))
    assert sets.decided(document)[0] == document
    assert sets.rules(document) == [("warning", "core/several-training-jobs")]


@pytest.mark.parametrize("command", [SERVE, ("sh", "-c", "wget https://example.org/x")], ids=["serves", "prepares"])
def test_a_training_label_on_a_jobset_that_does_not_train_is_warned_of(command):
    assert ("warning", "core/no-training-job") in sets.rules(jobset(training("one", *command)))
    assert ("warning", "core/no-training-job") not in sets.rules(jobset(training("one", *SERVE), framework="vllm"))
