"""Migrated jobs: their programs find in the pods what the old operators told them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.suites.pods import trainings
from e2e.suites.support.migrations import migrated
from e2e.suites.support.spaces import Space

_PROBE = ["python", "/usr/local/lib/probe.py"]


def _job(kind: str, container: str, roles: dict[str, int], command: list[str]) -> dict[str, Any]:
    member = {"PyTorchJob": "pytorchReplicaSpecs", "JAXJob": "jaxReplicaSpecs", "TFJob": "tfReplicaSpecs"}[kind]
    pod = {"spec": {"containers": [{"name": container, "image": trainings.IMAGE, "command": command}]}}
    replicas = {role: {"replicas": count, "template": pod} for role, count in roles.items()}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "old"}, "spec": {member: replicas}}


def _run(space: Space, folder: Path, job: dict[str, Any]) -> list[trainings.Pod]:
    file = folder / "old.yaml"
    file.write_text(yaml.safe_dump(job))
    *runtimes, made = migrated(file)
    for each in runtimes:
        space.apply(each).expect()
    trainings.known(space, made).expect()
    space.apply(made).expect()
    return trainings.ended(space, "old")


def test_master_and_worker_of_a_pytorchjob_meet_by_torchrun(space: Space, tmp_path: Path) -> None:
    job = _job("PyTorchJob", "pytorch", {"Master": 1, "Worker": 1}, ["torchrun", "train.py"])
    trainings.assert_met(_run(space, tmp_path, job), "old-node-0-0.old")


@pytest.mark.thorough
def test_a_program_of_a_pytorchjob_finds_its_rank_and_the_new_address(space: Space, tmp_path: Path) -> None:
    command = [*_PROBE, "--init=tcp://old-master-0:$(MASTER_PORT)"]
    pods = _run(space, tmp_path, _job("PyTorchJob", "pytorch", {"Master": 1, "Worker": 1}, command))
    trainings.assert_met(pods, "old-node-0-0.old")
    for pod in pods:
        assert pod.command[-1] == "--init=tcp://old-node-0-0.old:29500"
        assert (pod.env["RANK"], pod.env["WORLD_SIZE"]) == (str(pod.index), "2")


@pytest.mark.thorough
def test_workers_of_a_jaxjob_find_their_coordinator(space: Space, tmp_path: Path) -> None:
    for pod in _run(space, tmp_path, _job("JAXJob", "jax", {"Worker": 2}, _PROBE)):
        assert (pod.env["PROCESS_ID"], pod.env["NUM_PROCESSES"]) == (str(pod.index), "2")
        assert (pod.env["COORDINATOR_ADDRESS"], pod.env["COORDINATOR_PORT"]) == ("old-node-0-0.old", "6666")


def test_workers_of_a_tfjob_find_their_index_in_tf_config(space: Space, tmp_path: Path) -> None:
    for pod in _run(space, tmp_path, _job("TFJob", "tensorflow", {"Worker": 2}, _PROBE)):
        found = json.loads(pod.env["TF_CONFIG"])
        assert found["task"] == {"type": "worker", "index": pod.index}
        assert found["cluster"] == {"worker": ["old-node-0-0.old:2222", "old-node-0-1.old:2222"]}
