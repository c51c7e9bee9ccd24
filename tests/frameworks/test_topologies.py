"""Topology: how many nodes and processes a job means, whoever wrote it where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.launches import launches, topologies
from muster.strategies.launches.topologies import Topology
from tests.frameworks.builders import (
    GPU,
    gpus,
    job_of,
    jobset,
    jobset_of,
    replicated_job,
    runtime,
    trainjob,
)

MIG = "nvidia.com/mig-1g.10gb"
CLAIM = {"resources": {"claims": [{"name": "gpu"}], "requests": {"cpu": 4}}}
POD = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]}
CPU8 = {"resources": {"limits": {"cpu": 8}}}


def of(document, governing=None, **more):
    found = topologies.read_topology(job_of(document, governing, **more))
    return found.nodes, found.processes, found.devices.kind


TRAINJOBS = {
    "nothing at all": ({}, {}, (1, 1, "none")),
    "GPUs of the runtime": ({}, {"resources": gpus(4)}, (1, 4, "gpu")),
    "GPUs of the job": ({"resourcesPerNode": gpus(8)}, {"resources": gpus(4)}, (1, 8, "gpu")),
    "the runtime's GPUs stay beside an override of memory": (
        {"resourcesPerNode": {"limits": {"memory": "1Gi"}}},
        {"resources": gpus(4)},
        (1, 4, "gpu"),
    ),
    "GPUs of two makers": ({"resourcesPerNode": {"limits": {"amd.com/gpu": 2, GPU: 1}}}, {}, (1, None, "other")),
    "memory of a GPU is not a number of GPUs": (
        {"resourcesPerNode": {"limits": {"aliyun.com/gpu-mem": 16, "cpu": 8}}},
        {},
        (1, None, "other"),
    ),
    "shares of a GPU": ({"resourcesPerNode": {"limits": {"nvidia.com/gpu.shared": 2}}}, {}, (1, None, "other")),
    "memory beside a whole GPU": (
        {"resourcesPerNode": {"limits": {GPU: 1, "nvidia.com/gpumem": 3000}}},
        {},
        (1, 1, "gpu"),
    ),
    "another maker's accelerator": (
        {"resourcesPerNode": {"limits": {"habana.ai/gaudi": 8, "cpu": 96}}},
        {},
        (1, 8, "other"),
    ),
    "a network card is not an accelerator": (
        {"resourcesPerNode": {"limits": {"rdma/hca": 1, "cpu": 2}}},
        {},
        (1, 2, "none"),
    ),
    "one of several MIG slices": ({"resourcesPerNode": {"limits": {MIG: 2, "cpu": 8}}}, {}, (1, 1, "mig")),
    "CPUs, rounded up": ({"resourcesPerNode": {"requests": {"cpu": "2500m"}}}, {}, (1, 3, "none")),
    "numProcPerNode wins": ({"numProcPerNode": 2}, {"resources": gpus(4)}, (1, 2, "gpu")),
    "numNodes wins over the runtime's": ({"numNodes": 2}, {"policy": {"numNodes": 3, "torch": {}}}, (2, 1, "none")),
    "the runtime's numNodes": ({}, {"policy": {"numNodes": 3, "torch": {}}}, (3, 1, "none")),
    "a claim of known size": ({}, {**CLAIM, "pod": POD}, (1, 2, "claim")),
    "an override drops the claim": (
        {"resourcesPerNode": {"limits": {"memory": "1Gi"}}},
        {**CLAIM, "pod": POD},
        (1, 4, "none"),
    ),
    "a claim that no container uses": ({}, {"pod": POD}, (1, 1, "none")),
    "no runtime": ({"numNodes": 2, "resourcesPerNode": gpus(2)}, None, (2, 2, "gpu")),
}


@pytest.mark.parametrize(("trainer", "governing", "wanted"), TRAINJOBS.values(), ids=TRAINJOBS)
def test_a_trainjob_means(trainer, governing, wanted):
    document = None if governing is None else runtime(**governing)
    assert of(trainjob(trainer), document, claims={"two": 2}) == wanted


def test_a_claim_of_unknown_size_has_an_unknown_number_of_processes():
    job = job_of(trainjob({"numNodes": 2}), runtime(**CLAIM, pod=POD))
    found = topologies.read_topology(job)
    assert (found.processes, found.world_size, found.is_distributed, found.on_cpu) == (None, None, True, False)
    assert found.size == "2 nodes x an unknown number of processes"
    by_name = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}
    assert (
        topologies.read_topology(job_of(trainjob({}), runtime(**CLAIM, pod=by_name), claims={"shared": 1})).processes
        == 1
    )


def env(**values):
    return {"env": [{"name": name, "value": value} for name, value in values.items()]}


FROM_POD = {"env": [{"name": "PET_NPROC_PER_NODE", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}
JOBSETS = {
    "one pod": ({}, {}, (1, 1, False)),
    "parallel pods": ({"resources": gpus(2)}, {"parallelism": 3}, (3, 2, False)),
    "several jobs": ({}, {"replicas": 2, "parallelism": 3}, (6, 1, False)),
    "CPUs are not counted": (CPU8, {}, (1, 1, False)),
    "numbers in PET_*": (env(PET_NNODES="2", PET_NPROC_PER_NODE="4"), {"parallelism": 2}, (2, 4, False)),
    "a range of nodes": (env(PET_NNODES="1:4"), {}, (4, 1, True)),
    "a range of one": (env(PET_NNODES="2:2"), {}, (2, 1, False)),
    "auto with GPUs": ({**env(PET_NPROC_PER_NODE="auto"), "resources": gpus(4)}, {}, (1, 4, False)),
    "auto without GPUs is whatever the machine has": (env(PET_NPROC_PER_NODE="auto"), {}, (1, None, False)),
    "cpu": ({**env(PET_NPROC_PER_NODE="cpu"), "resources": gpus(4)}, {}, (1, None, False)),
    "a number that only the pod knows": ({**FROM_POD, "resources": gpus(4)}, {}, (1, None, False)),
    "nodes that only the pod knows": (env(PET_NNODES="$(N)"), {"parallelism": 2}, (2, 1, True)),
}


@pytest.mark.parametrize(("container", "job", "wanted"), JOBSETS.values(), ids=JOBSETS)
def test_a_jobset_means(container, job, wanted):
    document = jobset(replicated_job("node", {"name": "node", **container}, **job))
    found = topologies.read_topology(job_of(document))
    assert (found.nodes, found.processes, found.elastic) == wanted


def test_a_jobset_whose_training_job_cannot_be_told_is_one_process():
    document = jobset(replicated_job("a", {"name": "x"}), replicated_job("b", {"name": "y"}))
    assert of(document) == (1, 1, "none")


@pytest.mark.parametrize("trainer", [{"numNodes": 2}, {"numNodes": 3, "numProcPerNode": 2}])
def test_a_jobset_of_trainer_means_what_its_trainjob_means(trainer):
    governing, document = runtime(resources=gpus(4)), trainjob(trainer)
    made = jobset_of(document, governing)
    assert of(made, governing, owner=document) == of(document, governing)


FLAGS = {
    "no flag": ("torchrun x.py", (2, 4, False)),
    "nodes": ("torchrun --nnodes=3 x.py", (3, 4, False)),
    "a range of nodes": ("torchrun --nnodes=1:3 x.py", (3, 4, True)),
    "nodes of an env": ("torchrun --nnodes=$(N) x.py", (2, 4, True)),
    "processes": ("torchrun --nproc-per-node 2 x.py", (2, 2, False)),
    "one process per GPU": ("torchrun --nproc_per_node=gpu x.py", (2, 8, False)),
    "one process per CPU": ("torchrun --nproc_per_node=cpu x.py", (2, None, False)),
    "processes of an env": ("torchrun --nproc_per_node=$(P) x.py", (2, None, False)),
    "standalone": ("torchrun --standalone --nnodes=2 x.py", (1, 4, False)),
    "tune run with options": ("tune run --nproc_per_node=2 full_finetune_distributed", (2, 2, False)),
    "tune run without options": ("tune run full_finetune_distributed", (1, 1, False)),
    "the flags of a program are its own": ("python x.py --nnodes=3", (2, 4, False)),
}


@pytest.mark.parametrize(("line", "wanted"), FLAGS.values(), ids=FLAGS)
def test_flags_of_the_launcher_win(line, wanted):
    from_job = Topology(2, 4, topologies.devices.Devices(8, "gpu"))
    found = topologies.launched(from_job, launches.parse(line.split()))
    assert (found.nodes, found.processes, found.elastic) == wanted


def test_a_world_is_nodes_times_processes_and_unknown_while_elastic():
    devices = topologies.devices.Devices(4, "gpu")
    assert Topology(2, 4, devices).world_size == 8
    assert Topology(2, 4, devices, elastic=True).world_size is None
    assert (Topology(1, 1, devices).size, Topology(2, 4, devices).size) == (
        "1 node x 1 process",
        "2 nodes x 4 processes",
    )


@given(st.lists(st.sampled_from(["0", "1", "2", "3", "4", "7", "-1", "GPU-1f", "x"]), max_size=6), st.integers(1, 4))
def test_an_index_that_does_not_exist_hides_itself_and_all_behind_it(entries, count):
    seen = 0
    for entry in entries:
        if not (entry.startswith("GPU-") or (entry.isdecimal() and int(entry) < count)):
            break
        seen += 1
    assert topologies.visible(count, {"CUDA_VISIBLE_DEVICES": ",".join(entries)}) == min(seen, count)


@pytest.mark.parametrize("shown", ["all", "0,1", None])
def test_an_index_may_be_that_of_a_device_which_the_container_did_not_ask_for(shown):
    assert topologies.visible(2, {"CUDA_VISIBLE_DEVICES": "4,5", "NVIDIA_VISIBLE_DEVICES": shown}) == 2
    assert topologies.visible(2, {"CUDA_VISIBLE_DEVICES": "4,5"}, others=True) == 2
    assert topologies.visible(2, {"CUDA_VISIBLE_DEVICES": "4,5"}) == 0
