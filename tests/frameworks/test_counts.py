"""Processes against devices and nodes against pods: what is wasted is warned about, what cannot run is an error."""

from __future__ import annotations

import pytest

from tests.frameworks.builders import enforce, found, gpus, jobset, replicated_job, runtime, trainjob

FOUR = runtime(resources=gpus(4))


def judged(line, trainer=None, governing=FOUR, env=None):
    """Return (severity, rule, field) of each finding about a command line."""
    section = {"command": line.split(), **(trainer or {})}
    if env:
        section["env"] = [{"name": name, "value": value} for name, value in env.items()]
    document = enforce("torch", trainjob(section), governing).document
    return [(each.severity.value, each.rule, each.field) for each in found("torch", document, governing)]


FITTING = {
    "torchrun with Trainer's numbers": ("torchrun x.py", {}, {}),
    "torchrun with the number itself": ("torchrun --nproc-per-node=4 x.py", {}, {}),
    "torchrun that counts": ("torchrun --nproc_per_node gpu x.py", {"numNodes": 2}, {}),
    "torchrun by a variable of the job": ("torchrun --nproc_per_node=$(N) x.py", {}, {"N": "4"}),
    "the job's own number": ("torchrun x.py", {"numProcPerNode": 4, "numNodes": 3}, {}),
    "only the devices that are visible": (
        "torchrun x.py",
        {"resourcesPerNode": gpus(1)},
        {"CUDA_VISIBLE_DEVICES": "0"},
    ),
    "deepspeed on one node": ("deepspeed x.py", {}, {}),
    "deepspeed by number": ("deepspeed --num_gpus 4 x.py", {}, {}),
    "composer on one node": ("composer x.py", {}, {}),
    "composer on several nodes": ("composer x.py", {"numNodes": 2}, {}),
    "a plain program on one node": ("python x.py", {}, {}),
    "more processes than CPUs": ("torchrun --nproc_per_node=8 x.py", {"resourcesPerNode": {"limits": {"cpu": 2}}}, {}),
}


@pytest.mark.parametrize(("line", "trainer", "env"), FITTING.values(), ids=FITTING)
def test_nothing_is_found_where_the_numbers_fit(line, trainer, env):
    governing = runtime() if "cpu" in str(trainer) else FOUR
    assert judged(line, trainer, governing, env=env) == []


IDLE = {
    "a flag": ("torchrun --nproc_per_node=1 x.py", {}, {}, "spec.trainer.command[1]"),
    "an abbreviated flag": ("torchrun --nproc 3 x.py", {}, {}, "spec.trainer.command[1]"),
    "a variable in a flag": ("torchrun --nproc_per_node=$(N) x.py", {}, {"N": "2"}, "spec.trainer.command"),
    "the job's own number": ("torchrun x.py", {"numProcPerNode": 1}, {}, "spec.trainer.numProcPerNode"),
    "visible devices": (
        "torchrun --nproc_per_node gpu x.py",
        {},
        {"CUDA_VISIBLE_DEVICES": "0,1"},
        "spec.trainer.command[1]",
    ),
    "deepspeed": ("deepspeed --num_gpus=2 x.py", {}, {}, "spec.trainer.command[1]"),
    "a recipe of torchtune without torchrun": (
        "tune run full_finetune_single_device --config c",
        {},
        {},
        "spec.trainer.command",
    ),
}


@pytest.mark.parametrize(("line", "trainer", "env", "field"), IDLE.values(), ids=IDLE)
def test_devices_without_a_process_are_warned_about_where_the_number_is(line, trainer, env, field):
    assert judged(line, trainer, env=env) == [("warning", "core/idle-devices", field)]


def test_a_warning_tells_how_many_devices_idle():
    document = trainjob({"command": ["torchrun", "--nproc_per_node=1", "x.py"], "numNodes": 2})
    (finding,) = found("torch", document, FOUR)
    assert "3 of 4 GPUs idle on each node" in finding.message


TOO_MANY = {
    "a flag": ("torchrun --nproc_per_node=8 x.py", {}, {}),
    "the job's own number": ("torchrun x.py", {"numProcPerNode": 5}, {}),
    "fewer visible devices": ("torchrun --nproc_per_node=4 x.py", {}, {"CUDA_VISIBLE_DEVICES": "0,1"}),
    "deepspeed": ("deepspeed --num_gpus 8 x.py", {}, {}),
    "composer": ("composer -n 8 x.py", {}, {}),
    "torchtune": ("tune run --nproc_per_node 8 --nnodes 1 full_finetune_distributed", {}, {}),
    "a number that nobody can count to": ("torchrun --nproc_per_node=999999999999 x.py", {}, {}),
}


@pytest.mark.parametrize(("line", "trainer", "env"), TOO_MANY.values(), ids=TOO_MANY)
def test_more_processes_than_devices_are_an_error(line, trainer, env):
    assert ("error", "core/too-many-processes") in [each[:2] for each in judged(line, trainer, env=env)]


NODES = {
    "torchrun for one of two": ("torchrun --nnodes 1 x.py", {"numNodes": 2}),
    "torchrun for a part": ("torchrun --nnodes=2 x.py", {"numNodes": 3}),
    "deepspeed without hosts": ("deepspeed x.py", {"numNodes": 2}),
    "torchtune without torchrun": ("tune run my_recipe", {"numNodes": 2, "resourcesPerNode": gpus(1)}),
}


@pytest.mark.parametrize(("line", "trainer"), NODES.values(), ids=NODES)
def test_a_launch_that_leaves_nodes_out_is_an_error(line, trainer):
    assert ("error", "core/nodes") in [each[:2] for each in judged(line, trainer)]


def test_a_flag_with_two_values_is_refused():
    assert ("error", "core/flag-twice") in [
        each[:2] for each in judged("torchrun --nproc_per_node=4 --nnodes=1 --nproc-per-node 2 x.py")
    ]


def test_a_launch_that_muster_cannot_read_is_noted():
    assert judged("mpirun -n 8 python x.py") == [("note", "core/unknown-world", "spec.trainer.command")]


def test_ranks_of_one_node_are_counted_under_mpi():
    assert judged("mpirun -n 4 python x.py") == []
    assert [each[:2] for each in judged("mpirun -n 2 python x.py")] == [("warning", "core/idle-devices")]
    assert [each[:2] for each in judged("horovodrun -np 4 -H localhost:2 python x.py")] == [("error", "core/launch")]


def test_a_launcher_that_each_process_would_start_again_is_an_error():
    assert [each[:2] for each in judged("torchrun -m accelerate.commands.launch x.py")] == [("error", "core/launch")]
    assert [each[:2] for each in judged("accelerate launch torchrun x.py")] == [("error", "core/launch")]
    assert judged("torchrun train.py torchrun") == []
    assert judged("accelerate launch --num_processes 1 --no_python torchrun --nproc_per_node 4 x.py") == []


def test_a_number_that_torchrun_refuses_is_an_error():
    assert judged("torchrun --nproc_per_node=four x.py") == [("error", "core/launch", "spec.trainer.command[1]")]


FAULTS = {
    "a number of processes": ("torchrun --nproc_per_node=four x.py", "--nproc_per_node"),
    "a number of nodes": ("torchrun --nnodes=0 x.py", "--nnodes"),
}


@pytest.mark.parametrize(("line", "shown"), FAULTS.values(), ids=FAULTS)
def test_a_launch_that_would_not_start_is_told_with_the_flag_at_fault(line, shown):
    document = trainjob({"command": line.split()})
    (finding,) = [each for each in found("torch", document, FOUR) if each.rule == "core/launch"]
    assert (finding.severity.value, finding.value) == ("error", shown)


def test_conditions_that_keep_nodes_from_several_launches_are_warned_of_once():
    text = 'if [ "$PET_NODE_RANK" = 0 ]; then torchrun a.py; torchrun b.py; fi'
    document = trainjob({"command": ["bash", "-c", text], "numNodes": 2})
    apart = [each.value for each in found("torch", document, FOUR) if each.rule == "core/part-of-nodes"]
    assert apart == ["torchrun a.py"]


def test_a_jobset_is_judged_by_its_own_env():
    env = [{"name": "PET_NPROC_PER_NODE", "value": "1"}]
    node = replicated_job("node", {"name": "node", "command": ["torchrun", "x.py"], "env": env, "resources": gpus(4)})
    (finding,) = found("torch", jobset(node))
    assert (finding.rule, finding.severity.value) == ("core/idle-devices", "warning")


NO_RANGE = ["0", "0:2", "4:2"]


@pytest.mark.parametrize("nodes", NO_RANGE)
def test_a_number_of_nodes_that_torchrun_refuses_is_an_error(nodes):
    assert judged(f"torchrun --nnodes={nodes} x.py", {"numNodes": 4}) == [
        ("error", "core/launch", "spec.trainer.command[1]")
    ]


@pytest.mark.parametrize(("nodes", "told"), [("1:2", True), ("1:4", False), ("2:8", False), ("4", False)])
def test_nodes_beyond_the_range_of_a_launch_wait_idle(nodes, told):
    found_ = judged(f"torchrun --nnodes={nodes} --max-restarts=3 x.py", {"numNodes": 4})
    assert found_ == [("warning", "core/launch", "spec.trainer.command[1]")] * told


@pytest.mark.parametrize("number", ["0", "-1"])
def test_no_processes_cannot_start(number):
    assert judged(f"torchrun --nproc-per-node={number} x.py") == [("error", "core/launch", "spec.trainer.command[1]")]


VISIBLE = {
    "amd.com/gpu": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "huawei.com/Ascend910": ("ASCEND_RT_VISIBLE_DEVICES",),
    "nvidia.com/gpu": ("CUDA_VISIBLE_DEVICES",),
}


@pytest.mark.parametrize(("device", "name"), [(device, name) for device, every in VISIBLE.items() for name in every])
def test_each_maker_has_variables_that_hide_devices(device, name):
    four = {"resourcesPerNode": {"limits": {device: 4}}}
    line = "torchrun --nproc-per-node=4 x.py"
    ends = [("error", "core/too-many-processes", "spec.trainer.command[1]")]
    assert judged(line, four, runtime(), env={name: "0,1"}) == ends
    assert judged(line, four, runtime(), env={name: "0,1,2,3"}) == []


def test_a_variable_of_another_maker_hides_nothing():
    assert judged("torchrun x.py", env={"HIP_VISIBLE_DEVICES": "0"}) == []


INCLUDED = {
    "localhost:0,1": "core/idle-devices",
    "localhost:0-2": "core/idle-devices",
    "localhost:4": "core/launch",
    "localhost:0-3": None,
    "worker-1:0,1": None,
    "localhost": None,
    "localhost:a": None,
}


@pytest.mark.parametrize(("text", "rule"), INCLUDED.items())
def test_deepspeed_takes_the_devices_that_it_is_told(text, rule):
    told = [each for _, each, _ in judged(f"deepspeed --include {text} x.py") if each != "core/unknown-world"]
    assert told == ([rule] if rule else [])


def test_deepspeed_leaves_the_devices_that_it_is_told():
    assert [rule for _, rule, _ in judged("deepspeed --exclude localhost:0 x.py")] == ["core/idle-devices"]


@pytest.mark.parametrize(("count", "told"), [("2", True), ("4", False)])
def test_nodes_in_the_env_of_a_jobset_are_those_of_its_pods(count, told):
    container = {"name": "node", "command": ["torchrun", "x.py"], "env": [{"name": "PET_NNODES", "value": count}]}
    document = jobset(replicated_job("node", container, parallelism=4, completions=4), name="job")
    assert ("core/nodes" in [each.rule for each in found("torch", document)]) is told
