"""What `accelerate launch` itself starts, on nodes with a pretended number of GPUs, and what Muster predicts of it."""

from __future__ import annotations

import itertools

import pytest

from muster.strategies.frameworks.trl import flags
from muster.strategies.launches.accelerate import read_accelerate, read_trl

ADDRESS = "--main_process_ip=head --main_process_port=29501"
RANK = "--machine_rank=$(PET_NODE_RANK)"
STANDARD = "--deepspeed_multinode_launcher=standard"
LAUNCHES = [
    "",
    "--multi_gpu",
    "--num_processes=1",
    "--num_processes=4",
    "--num_processes=8",
    "--num_machines=1 --num_processes=4",
    "--multi_gpu --num_processes=4",
    "--multi_gpu --num_processes=1",
    "--num_machines=2",
    f"--num_machines=2 --num_processes=8 {RANK} {ADDRESS}",
    f"--num_machines=2 --num_processes=7 {RANK} {ADDRESS}",
    f"--num_machines=2 --num_processes=2 {RANK} {ADDRESS}",
    f"--num_machines=2 --num_processes=8 {RANK}",
    f"--multi_gpu --num_machines=2 --num_processes=2 {RANK} {ADDRESS}",
    f"--multi_gpu --num_machines=2 --num_processes=2 {ADDRESS}",
    f"--multi_gpu --num_machines=2 --num_processes=8 --machine_rank=0 {ADDRESS}",
    f"--multi_gpu --num_machines=2 --num_processes=8 {RANK} --main_process_ip=localhost",
    f"--multi_gpu --num_machines=2 --num_processes=8 {RANK} --main_process_ip=head",
    f"--multi_gpu --num_machines=2 {RANK} {ADDRESS}",
    f"--multi_gpu --num_machines=4 --num_processes=16 {RANK} {ADDRESS}",
    f"--multi_gpu --num_machines=2 --num_processes=8 --rdzv_backend=c10d --machine_rank=0 {ADDRESS}",
    f"--multi_gpu --same_network --num_machines=2 --num_processes=8 {RANK} {ADDRESS}",
    "--use_fsdp",
    f"--use_fsdp --num_machines=2 --num_processes=2 {RANK} {ADDRESS}",
    f"--use_fsdp --num_machines=2 --num_processes=1 {RANK} {ADDRESS}",
    "--use_deepspeed",
    f"--use_deepspeed {STANDARD} --num_machines=2 --num_processes=8 {RANK} {ADDRESS}",
    "--cpu",
    "--cpu --num_processes=4",
    "--cpu --multi_gpu",
    "--multi_gpu --use_fsdp",
    "--gpu_ids=0,1 --num_processes=2",
    "--num_processes=4 --main_process_port=0",
    "--num_processes=4 --main_process_port=1234 --main_process_ip=localhost",
    "--num_processes=auto",
    "--use_parallelism_config",
    "--use_parallelism_config --use_fsdp --fsdp_version=2",
]
CASES = list(itertools.product(LAUNCHES, (1, 2), (0, 1, 4)))


def names(launch, nodes, devices):
    return [f"{launch} on {nodes} x {devices}, node {rank}" for rank in range(nodes)]


def pet(nodes, rank):
    injected = {"NNODES": str(nodes), "NPROC_PER_NODE": "3", "NODE_RANK": str(rank), "MASTER_PORT": "29500"}
    return {f"PET_{name}": value for name, value in {**injected, "MASTER_ADDR": "job-node-0-0.job"}.items()}


TRL = [
    "",
    "--accelerate_config single_gpu",
    "--accelerate_config multi_gpu",
    "--accelerate_config fsdp2",
    "--accelerate_config zero3 --num_processes 4",
    f"--accelerate_config fsdp1 --num_machines 2 --num_processes 8 {RANK} {ADDRESS}",
    f"--accelerate_config zero2 --num_machines 2 --num_processes 2 {ADDRESS}",
    "--num_processes 2",
    f"--multi_gpu --num_machines 2 --num_processes 2 {RANK} {ADDRESS}",
    f"--num_machines 2 --num_processes 2 {RANK} {ADDRESS}",
]
SCRIPT = ["--model_name_or_path", "m", "--dataset_name", "d", "--output_dir", "o", "--use_cpu", "--bf16", "false"]
OF_TRL = list(itertools.product(TRL, (1, 2), (1, 4)))


@pytest.fixture(scope="module")
def started(launch_answers):
    asked = {}
    for launch, nodes, devices in CASES:
        for rank, name in enumerate(names(launch, nodes, devices)):
            argv = [*launch.replace("$(PET_NODE_RANK)", str(rank)).split(), "train.py"]
            asked[name] = {"program": "accelerate", "argv": argv, "gpus": devices, "env": pet(nodes, rank)}
    for launch, nodes, devices in OF_TRL:
        for rank, name in enumerate(names(f"trl {launch}", nodes, devices)):
            argv = ["sft", *launch.replace("$(PET_NODE_RANK)", str(rank)).split(), *SCRIPT]
            asked[name] = {"program": "trl", "argv": argv, "gpus": devices, "env": pet(nodes, rank)}
    return launch_answers(asked, {})


def world(answers):
    """(processes per node, nodes that meet) of what the nodes started; None where they cannot train."""
    if any("error" in each for each in answers):
        return None
    if any(each["by"] == "python" for each in answers):
        return (1, 1)
    first, nodes = answers[0], len(answers)
    ranked = all(each["rank"] in (rank, None) for rank, each in enumerate(answers))
    one_place = len({each["endpoint"] for each in answers}) == 1
    shared = nodes == 1 or first["endpoint"].partition(":")[0] not in ("localhost", "None")
    meets = ranked and one_place and shared and first["nodes"] == [nodes, nodes] and first["processes"] > 0
    return (first["processes"], nodes) if meets else None


@pytest.mark.parametrize(("launch", "nodes", "devices"), CASES)
def test_accelerate_starts_what_is_predicted(started, launch, nodes, devices):
    options = (word.removeprefix("--").partition("=") for word in launch.split())
    predicted = read_accelerate({name: value for name, _, value in options}, nodes, devices, {})
    happened = world([started[name] for name in names(launch, nodes, devices)])
    if happened is None or happened[1] != nodes:
        assert predicted.fault
    else:
        assert (predicted.per_node, predicted.nodes, predicted.fault) == (*happened, "")


@pytest.mark.parametrize(("launch", "nodes", "devices"), OF_TRL)
def test_trl_starts_what_is_predicted(started, launch, nodes, devices):
    words = [*launch.split(), *SCRIPT]
    written = flags.parse("sft", words).launcher_values
    values = {name: "" if value is True else str(value) for name, value in written.items()}
    predicted = read_trl(values, words, nodes, devices, {})
    happened = world([started[name] for name in names(f"trl {launch}", nodes, devices)])
    if happened is None or happened[1] != nodes:
        assert predicted.fault
    else:
        assert (predicted.per_node, predicted.nodes, predicted.fault) == (*happened, "")
