"""torch: what torchrun and plain programs find in their pods."""

from __future__ import annotations

import pytest

from e2e.suites.pods import trainings
from e2e.suites.support.documents import trainjob
from e2e.suites.support.spaces import Space

_TORCHRUN = ["torchrun", "train.py"]


@pytest.mark.thorough
def test_a_job_without_a_trainer_section_is_told_where_its_one_node_meets(space: Space) -> None:
    pods = trainings.run(space, trainings.runtime("torch", command=_TORCHRUN), trainjob("one", "torch"))
    trainings.assert_met(pods, "one-node-0-0.one")
    assert pods[0].command == _TORCHRUN
    assert pods[0].env["PET_NNODES"] == pods[0].env["PET_NPROC_PER_NODE"] == "1"
    assert pods[0].env["MUSTER_EXPECTED_WORLD_SIZE"] == "1"


def test_two_nodes_meet_at_pod_0_by_its_name(space: Space) -> None:
    job = trainjob("two", "torch", trainer={"numNodes": 2})
    pods = trainings.run(space, trainings.runtime("torch", command=_TORCHRUN), job)
    trainings.assert_met(pods, "two-node-0-0.two")
    for pod in pods:
        assert pod.command == _TORCHRUN
        assert pod.env["MASTER_ADDR"] == pod.env["PET_MASTER_ADDR"] == "two-node-0-0.two"
        assert pod.env["MASTER_PORT"] == pod.env["PET_MASTER_PORT"] == "29500"
        assert (pod.env["PET_NNODES"], pod.env["PET_NODE_RANK"]) == ("2", str(pod.index))
        assert pod.env["MUSTER_EXPECTED_WORLD_SIZE"] == "2"
        assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & pod.env.keys()


@pytest.mark.thorough
def test_processes_per_node_count_for_the_world_size(space: Space) -> None:
    job = trainjob("four", "torch", trainer={"numNodes": 2, "numProcPerNode": 2})
    pods = trainings.run(space, trainings.runtime("torch", command=_TORCHRUN), job)
    assert [pod.env["PET_NPROC_PER_NODE"] for pod in pods] == ["2", "2"]
    assert [pod.env["MUSTER_EXPECTED_WORLD_SIZE"] for pod in pods] == ["4", "4"]


def test_a_plain_python_program_is_given_its_rank(space: Space) -> None:
    job = trainjob("plain", "torch", trainer={"numNodes": 2, "command": ["python", "/usr/local/lib/probe.py"]})
    pods = trainings.run(space, trainings.runtime("torch", command=_TORCHRUN), job)
    trainings.assert_met(pods, "plain-node-0-0.plain")
    for pod in pods:
        assert (pod.env["RANK"], pod.env["WORLD_SIZE"], pod.env["LOCAL_RANK"]) == (str(pod.index), "2", "0")


def test_a_users_shell_script_runs_as_it_was_written(space: Space) -> None:
    script = ["bash", "-c", 'echo \'{"probe": "script"}\' && exec torchrun --nnodes=$PET_NNODES train.py']
    job = trainjob("script", "torch", trainer={"numNodes": 2, "command": script})
    pods = trainings.run(space, trainings.runtime("torch", command=_TORCHRUN), job)
    trainings.assert_met(pods, "script-node-0-0.script")
    assert [pod.command for pod in pods] == [["torchrun", "--nnodes=2", "train.py"]] * 2
    assert [pod.env["MASTER_ADDR"] for pod in pods] == ["script-node-0-0.script"] * 2


def test_c10d_asked_for_by_annotation_names_its_store(space: Space) -> None:
    job = trainjob("elastic", "torch", trainer={"numNodes": 2}, annotations={"muster.dev/rendezvous": "c10d"})
    pods = trainings.run(space, trainings.runtime("torch", command=_TORCHRUN), job)
    trainings.assert_met(pods, "elastic-node-0-0.elastic")
    for pod in pods:
        assert pod.env["PET_RDZV_BACKEND"] == "c10d"
        assert pod.env["PET_RDZV_ENDPOINT"] == "elastic-node-0-0.elastic:29500"
        assert pod.env["PET_RDZV_ID"] == "elastic"


@pytest.mark.thorough
def test_a_subdomain_of_the_runtime_is_the_one_that_resolves(space: Space) -> None:
    runtime = trainings.runtime("torch", command=_TORCHRUN, network={"subdomain": "ring"})
    pods = trainings.run(space, runtime, trainjob("inside", "torch", trainer={"numNodes": 2}))
    trainings.assert_met(pods, "inside-node-0-0.ring")


def test_each_gpu_of_a_node_is_a_process(space: Space, gpus: str) -> None:
    job = trainjob("gpus", "torch", trainer={"resourcesPerNode": {"limits": {gpus: "2"}}})
    (pod,) = trainings.run(space, trainings.runtime("torch", command=_TORCHRUN), job)
    assert pod.env["PET_NPROC_PER_NODE"] == "auto"
    assert pod.env["MUSTER_EXPECTED_WORLD_SIZE"] == "2"
