"""The runtimes that Muster ships: well-formed, and right without Muster."""

from __future__ import annotations

import re

import pytest
import yaml

from muster_guard.endings import EXIT_CODE
from tests.manifests import files, rules

each_runtime = pytest.mark.parametrize("path", files.RUNTIMES, ids=lambda path: path.stem)


def node_of(runtime):
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return next(job for job in jobs if job["name"] == "node")["template"]["spec"]["template"]["spec"]["containers"][0]


@each_runtime
def test_a_runtime_has_known_fields_and_parts_that_fit(path):
    (document,) = files.documents(path)
    assert document["kind"] == "ClusterTrainingRuntime"
    assert rules.check(document, {}) == []


@each_runtime
def test_a_runtime_is_called_like_its_file_which_says_what_it_is_for(path):
    (document,) = files.documents(path)
    assert document["metadata"]["name"] == path.stem
    assert files.header(path)


def test_the_kustomization_lists_every_runtime_file():
    kustomization = yaml.safe_load((files.FOLDER / "runtimes" / "kustomization.yaml").read_text())
    assert kustomization["resources"] == [path.name for path in files.RUNTIMES]


def test_runtimes_differ_in_name():
    assert len(files.runtimes()) == len(files.RUNTIMES)


@pytest.mark.parametrize("name", sorted(name for name in files.runtimes() if name.startswith("trl-")))
def test_a_trl_runtime_starts_every_process_even_if_nobody_helps_it(name):
    runtime = files.runtimes()[name]
    node = node_of(runtime)
    assert runtime["metadata"]["labels"][rules.FRAMEWORK] == "trl"
    assert node["command"][:3] == ["torchrun", "-m", f"trl.scripts.{'grpo' if name == 'trl-grpo' else 'sft'}"]
    assert {"name": "PET_NPROC_PER_NODE", "value": "auto"} in node["env"]


@pytest.mark.parametrize("name", sorted(name for name in files.runtimes() if name.startswith("torchtune-")))
def test_the_name_of_a_torchtune_runtime_says_the_model_of_its_config(name):
    command = node_of(files.runtimes()[name])["command"]
    _, family, size = name.split("-")
    assert command[:2] == ["tune", "run"]
    assert command[command.index("--config") + 1] == f"{family.replace('.', '_')}/{size.upper()}_full"


@pytest.mark.parametrize("name", sorted(name for name in files.runtimes() if re.search(r"\d[bB]$", name)))
def test_a_model_runtime_trains_on_two_gpus_after_both_downloads(name):
    runtime = files.runtimes()[name]
    jobs = {job["name"]: job for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
    assert {dependency["name"] for dependency in jobs["node"]["dependsOn"]} == set(jobs) - {"node"}
    assert node_of(runtime)["resources"] == {"limits": {"nvidia.com/gpu": 2}}


@pytest.mark.parametrize("name", sorted(name for name in files.runtimes() if name.startswith("trl-")))
def test_a_job_whose_training_had_the_wrong_size_fails_at_once(name):
    jobs = {job["name"]: job for job in files.runtimes()[name]["spec"]["template"]["spec"]["replicatedJobs"]}
    job = jobs["node"]["template"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule == {
        "action": "FailJob",
        "onExitCodes": {"containerName": "node", "operator": "In", "values": [EXIT_CODE]},
    }
    assert job["template"]["spec"]["restartPolicy"] == "Never", "Kubernetes has no such policy for others"
