"""Containers of one pod that share the work wrongly: devices on the one that does not train, launches in two."""

from __future__ import annotations

import pytest

from tests.frameworks.builders import found as judged
from tests.frameworks.builders import gpus, runtime, trainjob
from tests.jobsets import sets
from tests.jobsets.sets import SERVE, TORCHRUN, container, jobset, part

HELD = "core/neighbour-devices"
HOLDERS = {
    "an exporter": container("dcgm-exporter", name="dcgm", gpus=8),
    "an image called an exporter": container(name="gpu-exporter", gpus=8),
    "a sleep": container("sleep", "infinity", name="holder", gpus=8),
    "a shell that sleeps": container("sh", "-c", "while true; do sleep 60; done", name="holder", gpus=8),
}
LAUNCHES = {
    "a number of GPUs": ("torchrun", "--nproc_per_node", "8", "train.py"),
    "no number": TORCHRUN,
    "inside a shell": ("bash", "-c", "torchrun --nproc_per_node 8 train.py"),
}


def found(document, rule):
    return [each for each in sets.decided(document)[1] if each.rule == rule]


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_the_container_that_launches_trains_though_a_sidecar_holds_the_devices(holder, launch, first):
    trainer = container(*launch, name="app")
    document = jobset(part("job", *((holder, trainer) if first else (trainer, holder)), pods=2))
    assert sets.touched(document) == [("job", "app")]
    (finding,) = found(document, HELD)
    assert (finding.severity.value, finding.value) == ("warning", holder["name"])
    assert finding.field.endswith("containers[app].resources")


def test_a_server_whose_devices_an_exporter_holds_is_still_the_server():
    pod = (HOLDERS["an exporter"], container(*SERVE, name="engine"))
    assert sets.touched(jobset(part("job", *pod), framework="vllm")) == [("job", "engine")]


QUIET = {
    "each has its own": (container(*TORCHRUN, name="app", gpus=7), container("dcgm-exporter", name="dcgm", gpus=1)),
    "a server beside a trainer on CPUs": (container(*TORCHRUN, name="app"), container(*SERVE, name="vllm", gpus=1)),
    "a script on devices": (container("/run.sh", name="app", gpus=8), container(*TORCHRUN, name="check")),
    "all devices by the container runtime": (
        container(*TORCHRUN, name="app", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
        HOLDERS["an exporter"],
    ),
    "all devices by privilege": (
        container(*TORCHRUN, name="app", securityContext={"privileged": True}),
        HOLDERS["an exporter"],
    ),
}


@pytest.mark.parametrize("pod", QUIET.values(), ids=QUIET)
def test_devices_that_the_training_sees_or_need_not_see_are_not_talked_about(pod):
    assert found(jobset(part("job", *pod, pods=2)), HELD) == []


TWICE = "core/several-launches"
EVAL = ("torchrun", "eval.py")


@pytest.mark.parametrize("other", [EVAL, ("accelerate", "launch", "eval.py"), ("bash", "-c", "sleep 9; torchrun b.py")])
def test_a_second_container_that_launches_on_several_nodes_is_warned_of(other):
    pod = (container(*TORCHRUN, name="app", gpus=4), container(*other, name="second", gpus=4))
    (finding,) = found(jobset(part("job", *pod, pods=2)), TWICE)
    assert (finding.severity.value, finding.field.rsplit(".", 1)[-1]) == ("warning", "command")
    assert "containers[second]" in finding.field
    assert "each of the 2 nodes would train alone" in finding.message


ALONE = {
    "torchrun on its own pod by a flag": ("torchrun", "--standalone", "eval.py"),
    "torchrun on one node by a flag": ("torchrun", "--nnodes=1", "eval.py"),
    "accelerate on one machine by a flag": ("accelerate", "launch", "--num_machines=1", "eval.py"),
    "torchrun with a meeting of its own": (
        *("torchrun", "--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=set-job-0-0.set:29600", "eval.py"),
    ),
}


@pytest.mark.parametrize("other", ALONE.values(), ids=ALONE)
def test_a_second_launch_that_says_where_it_meets_is_only_noted(other):
    pod = (container(*TORCHRUN, name="app", gpus=4), container(*other, name="second", gpus=4))
    (finding,) = found(jobset(part("job", *pod, pods=2)), TWICE)
    assert finding.severity.value == "note"


def test_a_second_launch_that_says_so_in_its_arguments_is_only_noted():
    second = container("bash", "-c", name="second", gpus=4, args=["torchrun --standalone eval.py"])
    pod = (container(*TORCHRUN, name="app", gpus=4), second)
    (finding,) = found(jobset(part("job", *pod, pods=2)), TWICE)
    assert finding.severity.value == "note"


def test_a_second_launch_whose_env_says_where_it_meets_is_only_noted():
    env = [{"name": "PET_NNODES", "value": "2"}, {"name": "PET_RDZV_ENDPOINT", "value": "set-job-0-0.set:29600"}]
    pod = (container(*TORCHRUN, name="app", gpus=4), container(*EVAL, name="second", gpus=4, env=env))
    (finding,) = found(jobset(part("job", *pod, pods=2)), TWICE)
    assert finding.severity.value == "note"


def test_a_second_launch_in_the_only_pod_is_noted_since_it_needs_no_other():
    pod = (container(*TORCHRUN, name="app", gpus=4), container(*EVAL, name="second", gpus=4))
    assert [each.severity.value for each in found(jobset(part("job", *pod)), TWICE)] == ["note"]


@pytest.mark.parametrize("other", [("python", "ship.py"), SERVE, ("tail", "-F", "x"), ()])
def test_a_neighbour_that_launches_nothing_is_not_said_to(other):
    pod = (container(*TORCHRUN, name="app", gpus=4), container(*other, name="second"))
    assert found(jobset(part("job", *pod, pods=2)), TWICE) == []


def test_a_launch_in_an_evaluator_of_the_pod_is_only_noted():
    pod = (container(*TORCHRUN, name="app", gpus=4), container(*EVAL, name="evaluator", gpus=4))
    assert [each.severity.value for each in found(jobset(part("job", *pod, pods=2)), TWICE)] == ["note"]


@pytest.mark.parametrize(("other", "rule"), [(EVAL, TWICE), (SERVE, "core/unchecked-part")])
def test_a_neighbour_that_a_runtime_brings_is_told_of_at_the_reference_to_the_runtime(other, rule):
    beside = {"name": "second", "command": list(other)}
    governing = runtime(command=list(TORCHRUN), resources=gpus(4))
    pod = governing["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"].append(beside)
    (finding,) = [each for each in judged("torch", trainjob({"numNodes": 2}), governing) if each.rule == rule]
    assert (finding.field, finding.value) == ("spec.runtimeRef.name", "second")


@pytest.mark.parametrize(("own", "framework"), [(SERVE, "vllm"), (TORCHRUN, "torch")])
def test_a_server_beside_the_work_of_a_pod_is_noted_since_it_was_not_checked(own, framework):
    pod = (container(*own, name="app", gpus=2), container("vllm", "serve", "n", "-tp", "4", name="embed", gpus=1))
    (finding,) = found(jobset(part("job", *pod), framework=framework), "core/unchecked-part")
    assert (finding.severity.value, finding.value) == ("note", "embed")


ENDLESS = {
    "it sleeps": ("sleep", "infinity"),
    "it follows a log": ("tail", "-n0", "-F", "/logs/a"),
    "it goes round": ("sh", "-c", "mkdir -p /b; while true; do cp -r /a /b; sleep 60; done"),
    "it follows a log in a shell": ("sh", "-c", "mkdir -p /logs; exec tail -f /logs/a"),
}


def beside(*command, pod=None, init=False):
    other = container(*command, name="other")
    own = {**(pod or {}), **({"initContainers": [{**other, "restartPolicy": "Always"}]} if init else {})}
    every = [container(*TORCHRUN, gpus=8), *([] if init else [other])]
    return bool(found(jobset(part("node", *every, pods=2, pod=own)), "core/endless-neighbour"))


@pytest.mark.parametrize("command", ENDLESS.values(), ids=ENDLESS)
def test_a_container_that_never_ends_keeps_the_pod_of_a_training(command):
    assert beside(*command)
    assert not beside(*command, init=True)
    assert not beside(*command, pod={"shareProcessNamespace": True})


ENDING = {
    "it sleeps for a while": ("sleep", "600"),
    "it shows the end of a log": ("tail", "-n5", "/logs/a"),
    "it may be ended by a signal": ("sh", "-c", "trap exit TERM; sleep infinity"),
    "it sleeps in a branch": ("sh", "-c", "if [ -e /a ]; then sleep infinity; fi"),
    "it leaves its round": ("sh", "-c", "while true; do sleep 5; [ -e /done ] && break; done"),
    "it goes round until": ("sh", "-c", "until [ -e /done ]; do sleep 5; done"),
    "something follows its round": ("sh", "-c", "while true; do sleep 5; done & python ship.py"),
    "it goes on": ("sh", "-c", "sleep infinity & ship --logs"),
    "another program": ("fluent-bit",),
}


@pytest.mark.parametrize("command", ENDING.values(), ids=ENDING)
def test_a_container_that_may_end_is_not_spoken_of(command):
    assert not beside(*command)
