"""Which kind of rendezvous is chosen, and which world size is expected: from what the job and its launch say."""

from __future__ import annotations

import pytest

from muster.strategies.jobs.jobs import Settings
from tests.frameworks.builders import (
    enforce,
    gpus,
    jobset_of,
    runtime,
    trainjob,
)
from tests.frameworks.meetings import KIND, TORCHRUN, alone, made

# --- which kind -----------------------------------------------------------------------------------------------------

CHOICES = {
    "nothing said": ({}, {}, "train.py", False),
    "the job's annotation": ({KIND: "c10d"}, {}, "train.py", True),
    "the runtime's annotation": ({}, {KIND: "c10d"}, "train.py", True),
    "the job's annotation is nearer than the runtime's": ({KIND: "static"}, {KIND: "c10d"}, "train.py", False),
    "restarts": ({}, {}, "--max-restarts=3 train.py", True),
    "no restarts": ({}, {}, "--max-restarts 0 train.py", False),
    "a range of nodes": ({}, {}, "--nnodes=1:2 train.py", True),
    "a range of one": ({}, {}, "--nnodes=2:2 train.py", False),
    "the launch's own backend": ({}, {}, "--rdzv-backend=c10d train.py", True),
    "static in spite of restarts": ({}, {}, "--rdzv-backend static --max-restarts=3 train.py", False),
    "the annotation is nearer than restarts": ({KIND: "static"}, {}, "--max-restarts=3 train.py", False),
    "an unknown annotation says nothing": ({KIND: "etcd"}, {}, "train.py", False),
    "restarts behind an unknown annotation": ({KIND: "etcd"}, {}, "--max-restarts=3 train.py", True),
    "a flag of the program is none of torchrun's": ({}, {}, "train.py --max-restarts=3", False),
}


@pytest.mark.parametrize(("annotations", "of_runtime", "line", "c10d"), CHOICES.values(), ids=CHOICES)
def test_the_kind_is_chosen_by(annotations, of_runtime, line, c10d):
    trainer = {"command": ["torchrun", *line.split()], "numNodes": 2}
    out = made(trainer, runtime(annotations=of_runtime), annotations=annotations)
    assert ("PET_RDZV_ID" in out.env) is c10d


@pytest.mark.parametrize(
    ("env", "settings", "c10d"),
    [
        ({}, Settings("c10d"), True),
        ({"PET_MAX_RESTARTS": "2"}, Settings(), True),
        ({"PET_MAX_RESTARTS": "0"}, Settings(), False),
        ({"PET_RDZV_BACKEND": "c10d"}, Settings(), True),
        ({"PET_RDZV_BACKEND": "static"}, Settings("c10d"), False),
    ],
    ids=["the configuration", "restarts in env", "no restarts in env", "a backend in env", "env before configuration"],
)
def test_the_kind_is_chosen_by_env_and_configuration(env, settings, c10d):
    trainer = {"command": ["bash", "run.sh"], "env": [{"name": name, "value": value} for name, value in env.items()]}
    assert ("PET_RDZV_ID" in made(trainer, settings=settings).env) is c10d


def test_the_jobsets_own_annotation_is_nearest():
    governing, document = runtime(), trainjob(TORCHRUN, annotations={KIND: "c10d"})
    jobs = jobset_of(document, governing)
    jobs["metadata"]["annotations"] = {KIND: "static"}
    assert "PET_RDZV_ID" not in enforce("torch", jobs, governing, owner=document).env


def test_an_elastic_range_in_env_is_c10d_of_unknown_size():
    out = alone({**TORCHRUN, "env": [{"name": "PET_NNODES", "value": "1:4"}]}, parallelism=4)
    assert out.env["PET_RDZV_BACKEND"] == "c10d"
    assert "MUSTER_EXPECTED_WORLD_SIZE" not in out.env


# --- the size that is expected --------------------------------------------------------------------------------------

MEETING = "--machine_rank $(PET_NODE_RANK) --main_process_ip $(PET_MASTER_ADDR)"
SIZES = {
    "torchrun": ("torchrun x.py", {"numNodes": 2}, "8"),
    "torchrun with its own numbers": ("torchrun --nproc_per_node=2 x.py", {"numNodes": 2}, "4"),
    "torchrun with numbers of an env": ("torchrun --nproc_per_node=$(N) x.py", {"numNodes": 2}, None),
    "an elastic torchrun": ("torchrun --nnodes=1:2 x.py", {"numNodes": 2}, None),
    "a standalone torchrun": ("torchrun --standalone x.py", {}, "4"),
    "a recipe for one device": ("tune run full_finetune_single_device", {}, "1"),
    "a recipe under torchrun": ("tune run --rdzv_endpoint=h full_finetune_distributed", {}, "4"),
    "a plain program on one GPU": ("python x.py", {"resourcesPerNode": gpus(1)}, "1"),
    "a plain program on several GPUs may use them as it likes": ("python x.py", {}, None),
    "torchrun in a shell": ("bash -c torchrun\tx.py", {"numNodes": 2}, "8"),
    "torchrun with its own numbers in a shell": ("bash -c torchrun\t--nproc_per_node\t2\tx.py", {}, "2"),
    "a shell": ("bash -c accelerate\tlaunch\tx.py", {}, "4"),
    "accelerate with numbers": ("accelerate launch --num_processes 2 x.py", {}, "2"),
    "accelerate with numbers for one node on two": ("accelerate launch --num-processes=2 x.py", {"numNodes": 2}, "4"),
    "accelerate with numbers for two nodes": (
        f"accelerate launch --multi_gpu --num_machines 2 --num_processes 2 {MEETING} x.py",
        {"numNodes": 2},
        "2",
    ),
    "accelerate without numbers": ("accelerate launch x.py", {}, "4"),
    "trl on more GPUs than processes": ("trl sft", {"numProcPerNode": 1}, "4"),
    "trl on one GPU": ("trl sft", {"resourcesPerNode": gpus(1)}, "1"),
    "trl on two nodes of one GPU": ("trl sft", {"resourcesPerNode": gpus(1), "numNodes": 2}, None),
    "deepspeed": ("deepspeed x.py", {}, "4"),
    "an unknown program": ("start x.py", {}, None),
    "a plain program on two nodes of CPUs": (
        "python x.py",
        {"numNodes": 2, "resourcesPerNode": {"limits": {"cpu": 8, "nvidia.com/gpu": 0}}},
        None,
    ),
    "an unknown program on two nodes": ("deepspeed x.py", {"numNodes": 2}, None),
    "a shell on two nodes": ("bash -c accelerate\tlaunch\tx.py", {"numNodes": 2}, "8"),
}


@pytest.mark.parametrize(("line", "trainer", "size"), SIZES.values(), ids=SIZES)
def test_the_expected_size_is_right_or_absent(line, trainer, size):
    command = [word.replace("\t", " ") for word in line.split(" ")]
    assert made(trainer | {"command": command}).env.get("MUSTER_EXPECTED_WORLD_SIZE") == size


def test_the_size_of_a_claim_is_expected_only_when_known():
    claim = {"resources": {"claims": [{"name": "gpu"}]}}
    pod = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]}
    governing = runtime(**claim, pod=pod)
    assert made(TORCHRUN, governing, claims={"two": 2}).env["MUSTER_EXPECTED_WORLD_SIZE"] == "2"
    assert "MUSTER_EXPECTED_WORLD_SIZE" not in alone(claim | TORCHRUN, pod=pod).env
