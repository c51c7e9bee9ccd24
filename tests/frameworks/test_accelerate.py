"""accelerate launch: how many processes it starts on each node, and whether they meet.

tests/contract/trl/test_accelerate.py asks accelerate itself about the same command lines.
"""

from __future__ import annotations

import pytest

from muster.strategies.launches.accelerate import AccelerateWorld, read_accelerate, read_trl

RANK, ADDRESS = "--machine_rank=$(PET_NODE_RANK)", "--main_process_ip=$(PET_MASTER_ADDR) --main_process_port=29501"
MACHINES = f"--num_machines=2 {RANK} {ADDRESS}"
DEEP = "--deepspeed_multinode_launcher"


def read(written="", nodes=2, devices=4, env=None, config=None):
    options = (word.removeprefix("--").partition("=") for word in written.split())
    return read_accelerate({name: value for name, _, value in options}, nodes, devices, env or {}, config)


MEETING = {
    "nothing, on several devices": ("", 4, 4),
    "a number for each node": ("--num_processes=2", 4, 2),
    "all flags": (f"--num_processes=8 {MACHINES}", 4, 4),
    "all flags, on one device": (f"--multi_gpu --num_processes=2 {MACHINES}", 1, 1),
    "all flags in a shell's notation": (
        "--multi_gpu --num_machines=$PET_NNODES --num_processes=2 --machine_rank=${PET_NODE_RANK} --main_process_ip=$H",
        1,
        1,
    ),
    "the index of the Job": (
        "--multi_gpu --num_machines=2 --num_processes=2 --machine_rank=$(JOB_COMPLETION_INDEX) --main_process_ip=head",
        1,
        1,
    ),
    "sharding, on one device": (f"--use_fsdp --num_processes=2 {MACHINES}", 1, 1),
    "sharding with nothing else": ("--use_fsdp", 1, 1),
    "DeepSpeed": (f"--use_deepspeed {DEEP}=standard --num_processes=8 {MACHINES}", 4, 4),
    "a number that leaves a rest": (f"--num_processes=7 {MACHINES}", 4, 3),
    "no number": (MACHINES, 4, 2),
    "c10d, where ranks are not asked for": (
        f"--multi_gpu --num_processes=8 --num_machines=2 --rdzv_backend=c10d --machine_rank=0 {ADDRESS}",
        4,
        4,
    ),
    "CPU with a number": ("--multi_gpu --num_processes=2", 0, 2),
    "an address that one machine does not read": ("--num_processes=4 --main_process_ip=localhost", 4, 4),
}


@pytest.mark.parametrize(("written", "devices", "per_node"), MEETING.values(), ids=MEETING)
def test_two_nodes_meet_by(written, devices, per_node):
    assert read(written, 2, devices) == AccelerateWorld(per_node, 2)


FAULTS = {
    "one device and no flag": ("", 1, "each would train alone; start it by torchrun"),
    "one device and all but --multi_gpu": (f"--num_processes=2 {MACHINES}", 1, "or add --multi_gpu"),
    "one process on purpose": ("--num_processes=1", 4, "each would train alone"),
    "CPU": ("--num_processes=2", 0, "each would train alone; start it by torchrun"),
    "a flag for CPU": ("--cpu", 4, "remove --cpu"),
    "no rank": (f"--multi_gpu --num_machines=2 --num_processes=2 {ADDRESS}", 1, "stops with a TypeError"),
    "one rank for all": (
        f"--multi_gpu --num_machines=2 --num_processes=2 --machine_rank=0 {ADDRESS}",
        1,
        "--machine_rank 0 makes every node the same one",
    ),
    "no address": (f"--multi_gpu --num_machines=2 --num_processes=2 {RANK}", 1, "--main_process_ip is missing"),
    "no address, by a plain program": (f"--num_machines=2 --num_processes=2 {RANK}", 1, "AssertionError"),
    "its own address": (
        f"--multi_gpu --num_machines=2 --num_processes=2 {RANK} --main_process_ip=127.0.0.1",
        1,
        "each node's own address",
    ),
    "any port": ("--num_processes=4 --main_process_port=0", 4, "another port on each node"),
    "too many machines": (f"--num_machines=4 --num_processes=16 {RANK} {ADDRESS}", 4, "waits for 4 machines"),
    "no process for a machine": (f"--use_fsdp --num_processes=1 {MACHINES}", 1, "too few for 2 machines"),
    "a number that counts one node": ("--multi_gpu --num_processes=1", 1, "at least 2"),
    "two modes": ("--multi_gpu --use_fsdp", 4, "takes only one of --multi_gpu, --use_fsdp"),
    "DeepSpeed by ssh": (f"--use_deepspeed --num_processes=8 {MACHINES}", 4, "pdsh has no hostfile"),
    "DeepSpeed without ssh or hosts": (
        f"--use_deepspeed {DEEP}=nossh --num_processes=8 {MACHINES}",
        4,
        "nossh has no hostfile",
    ),
    "a word for a number": ("--num_processes=auto", 4, "--num_processes auto is not a whole number"),
    "parallelism without sharding": ("--use_parallelism_config", 4, "add both"),
    "fewer GPUs than processes": ("--gpu_ids=0,1", 4, "4 processes would share the 2 of --gpu_ids 0,1"),
    "no device to count": ("--multi_gpu", 0, "finds no device"),
}


@pytest.mark.parametrize(("written", "devices", "words"), FAULTS.values(), ids=FAULTS)
def test_two_nodes_cannot_be_one_training_by(written, devices, words):
    assert words in read(written, 2, devices).fault


ONE_NODE = {
    "all devices": ("", 4, 4),
    "one device": ("", 1, 1),
    "one process on purpose": ("--num_processes=1", 4, 1),
    "a number that one device makes one process of": ("--num_processes=4", 1, 1),
    "more processes than devices": ("--num_processes=8", 4, 8),
    "CPU": ("", 0, 1),
    "GPUs by number": ("--gpu_ids=0,1 --num_processes=2", 4, 2),
    "DeepSpeed": ("--use_deepspeed", 4, 4),
}


@pytest.mark.parametrize(("written", "devices", "per_node"), ONE_NODE.values(), ids=ONE_NODE)
def test_on_one_node_it_starts(written, devices, per_node):
    assert read(written, 1, devices) == AccelerateWorld(per_node, 1)


def test_devices_that_env_hides_are_not_counted():
    assert read("", 1, env={"CUDA_VISIBLE_DEVICES": "0,2"}).per_node == 2
    assert read("", 1, env={"CUDA_VISIBLE_DEVICES": "-1"}).per_node == 1
    assert read("", 1, env={"CUDA_VISIBLE_DEVICES": None}).per_node is None


def test_env_decides_what_flags_leave_open():
    assert "PET_NNODES is 1" in read("", 2, env={"PET_NNODES": "1"}).fault
    assert read("", 2, env={"PET_NNODES": None}).unknown == "the value of PET_NNODES"
    ranks = {"RANK": None, "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    assert read("", 2, 1, env=ranks) == AccelerateWorld(1, 2)


def test_a_rank_that_env_holds_as_one_number_is_that_number():
    written = f"--multi_gpu --num_machines=2 --num_processes=2 --machine_rank=$(MINE) {ADDRESS}"
    assert "every node the same one" in read(written, 2, 1, env={"MINE": "1"}).fault
    assert read(written, 2, 1, env={"MINE": None}) == AccelerateWorld(1, 2)


UNSEEN = {
    "a configuration file": ("--config_file=mine.yaml", 4, "mine.yaml"),
    "a TPU": ("--tpu", 4, "--tpu"),
    "MPI": ("--mpirun_hostfile=hosts", 0, "--mpirun_hostfile"),
    "an unknown number of devices": ("", None, "the number of processes"),
    "machines of an env": ("--multi_gpu --num_machines=$(MACHINES)", 4, "--num_machines"),
    "DeepSpeed with hosts": (
        f"--use_deepspeed --deepspeed_hostfile=hosts --num_processes=8 {MACHINES}",
        4,
        "DeepSpeed's launcher",
    ),
}


@pytest.mark.parametrize(("written", "devices", "words"), UNSEEN.values(), ids=UNSEEN)
def test_what_cannot_be_seen_is_said_and_never_blamed(written, devices, words):
    found = read(written, 2, devices)
    assert (found.fault, words in found.unknown) == ("", True)


def test_flags_beside_a_configuration_file_that_nobody_sees_still_tell_their_part():
    found = read(f"--config_file=mine.yaml --num_processes=8 {MACHINES}")
    assert (found.per_node, found.nodes, found.fault) == (4, 2, "")
    assert "mine.yaml" in found.unknown
    assert "each node's own" in read("--config_file=f --num_machines=2 --main_process_ip=localhost").fault
    assert read("--config_file=mine.yaml --num_machines=2").fault == ""


SHARDED = {"distributed_type": "FSDP", "num_machines": 1, "num_processes": 8, "machine_rank": 0}


def test_a_configuration_that_is_known_gives_what_flags_do_not():
    assert read(devices=1, config=SHARDED) == AccelerateWorld(8, 2)
    assert read(f"--num_processes=2 {MACHINES}", 2, 1, config=SHARDED) == AccelerateWorld(1, 2)
    assert "every node the same one" in read(f"--num_machines=2 {ADDRESS}", config=SHARDED).fault
    assert "train alone" in read(config=SHARDED | {"distributed_type": "NO"}).fault


def test_a_number_of_any_length_costs_nothing():
    assert read(f"--num_processes={'9' * 5000}", 1).per_node == 10**9


# --- trl ------------------------------------------------------------------------------------------------------------


def read_words(written, nodes=2, devices=4, **values):
    return read_trl(values, written.split(), nodes, devices, {})


def test_trl_starts_what_accelerate_starts():
    assert read_words("") == AccelerateWorld(4, 2)
    assert "train alone" in read_words("", devices=1).fault
    assert read_words("", 1, num_processes="2") == AccelerateWorld(2, 1)


def test_a_preset_of_trl_brings_its_own_number_and_kind():
    assert read_words("", devices=1, accelerate_config="fsdp2") == AccelerateWorld(8, 2)
    assert "train alone" in read_words("", accelerate_config="single_gpu").fault
    assert read_words("", 1, accelerate_config="zero3", num_processes="4") == AccelerateWorld(4, 1)


@pytest.mark.parametrize("words", ["--config sft.yaml", "--lr 1 --config sft.yaml"])
def test_a_file_of_trl_may_hold_flags_of_accelerate(words):
    found = read_words(words, devices=1)
    assert (found.fault, found.unknown) == ("", "the settings in sft.yaml")


def test_a_configuration_of_ones_own_is_not_seen():
    found = read_words("", accelerate_config="mine.yaml")
    assert (found.fault, found.unknown) == ("", "the settings in mine.yaml")
