"""The golden files are what their readers take them for: complete, in step with our manifests, and small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parent
MANIFESTS = FOLDER.parents[1] / "manifests" / "runtimes"
RESERVED = {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}

both_files = pytest.mark.parametrize("name", ["torch", "torchtune"])


def golden(name):
    return json.loads((FOLDER / name / "cases.json").read_text())


def outcome(name, case_name):
    return next(case for case in golden(name)["cases"] if case["name"] == case_name)


def env(case):
    return {entry["name"]: entry.get("value") for entry in case["wantEnv"] or ()}


@both_files
def test_every_case_has_a_name_of_its_own_and_a_runtime_of_the_file(name):
    content = golden(name)
    names = [case["name"] for case in content["cases"]]
    assert len(set(names)) == len(names)
    for case in content["cases"]:
        document = content["runtimes"][case["runtime"]]
        assert document["metadata"]["name"] == case["trainjob"]["spec"]["runtimeRef"]["name"]


@both_files
def test_a_changed_case_is_one_changed_line(name):
    lines = (FOLDER / name / "cases.json").read_text().splitlines()
    assert sum(line.startswith('{"name":') for line in lines) == len(golden(name)["cases"])
    assert (FOLDER / name / "cases.json").stat().st_size < 400_000


@both_files
def test_trainer_injects_its_variables_exactly_where_there_is_a_trainer_section(name):
    injecting = [case for case in golden(name)["cases"] if case["runtime"] != "inject-node"]
    for case in injecting:
        found = RESERVED & set(env(case))
        wanted = {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"}
        assert (wanted <= found) == ("trainer" in case["trainjob"]["spec"]), case["name"]


@pytest.mark.parametrize("gpus", [0, 1, 2])
@pytest.mark.parametrize("name", ["torchtune-llama3.2-1b", "torchtune-llama3.2-3b", "torchtune-qwen2.5-1.5b"])
def test_the_runtimes_of_the_cases_are_those_that_we_ship(name, gpus):
    shipped = yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())
    used = golden("torchtune")["runtimes"][f"{name}/gpu{gpus}"]
    for runtime in (shipped, used):
        jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
        next(job for job in jobs if job["name"] == "node")["template"]["spec"]["template"]["spec"]["containers"][0].pop(
            "resources", None
        )
    assert used == shipped


def test_the_known_miscounts_of_trainer_are_pinned():
    counts = {
        "override: gpu4 with memory": "1",
        "override: gpu4 with empty": "1",
        "runtime: claims": "4",
        "runtime: mig-cpu": "8",
        "runtime: cpu-milli": "3",
    }
    found = {case: env(outcome("torch", case))["PET_NPROC_PER_NODE"] for case in counts}
    assert found == counts


def test_the_groups_cover_what_they_promise():
    groups = {case["name"].split(":")[0] for name in ("torch", "torchtune") for case in golden(name)["cases"]}
    assert groups == {
        *("devices", "args", "models", "immutable", "nodes", "names", "command", "sample"),
        *("runtime", "no trainer", "override", "processes", "user", "patches"),
    }
    refused = [case for case in golden("torchtune")["cases"] if case["wantErrors"]]
    assert 40 <= len(refused) < len(golden("torchtune")["cases"]) / 2
