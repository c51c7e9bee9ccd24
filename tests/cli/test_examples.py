"""Every example is rendered, checked and explained as the comment at its head says."""

from __future__ import annotations

import pytest
import yaml

from muster.strategies.launches.launches import STRICT
from muster.webhook import kubeyaml
from tests.cli import jobs

PATHS = sorted(jobs.EXAMPLES.glob("*.yaml"))
SFT = ["torchrun", "-m", "trl.scripts.sft"]
MISTAKES = {
    "07": {"trl/vllm-server"},
    "14": {"core/numbers", "trl/precision", "trl/unknown-flag"},
}

every_example = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def number(path):
    return path.name[:2]


def rendered(muster, wanted):
    """Return the TrainJob of example `wanted` as it is stored, and the JobSet that comes of it."""
    (path,) = (path for path in PATHS if number(path) == wanted)
    documents = [parsed.value for parsed in kubeyaml.load_all(muster("render", "--jobset", "-f", path).out)]
    return [document for document in documents if document["kind"] in ("TrainJob", "JobSet")]


@every_example
def test_the_mistakes_are_found_and_nothing_else_is_called_one(muster, path):
    result = muster("check", "-o", "json", "-f", path)
    errors = {each["rule"] for job in result.json() for each in job["findings"] if each["severity"] == "error"}
    assert errors == MISTAKES.get(number(path), set())
    assert result.code == bool(errors)


@every_example
def test_every_change_of_an_example_is_explained(muster, path):
    found = muster("explain", "-o", "json", "-f", path).json()
    for each in found:
        assert all(change["rule"] and change["reason"] for change in each["changes"])
        assert bool(each["changes"]) != bool(each["unchanged"])
        assert each["framework"] in ("torch", "torchtune", "trl", "vllm")
    kinds = [each["kind"] for each in found if not each["predicted"]]
    assert kinds == [document["kind"] for document in yaml.safe_load_all(path.read_text()) if "Job" in document["kind"]]


@every_example
def test_what_is_no_job_leaves_as_it_came(muster, path):
    out = [parsed.value for parsed in kubeyaml.load_all(muster("render", "-f", path).out)]
    came = list(yaml.safe_load_all(path.read_text()))
    assert [each["kind"] for each in out] == [each["kind"] for each in came]
    assert [each for each in out if "Job" not in each["kind"]] == [each for each in came if "Job" not in each["kind"]]


@pytest.mark.parametrize(
    ("example", "command"),
    [
        ("01", SFT),
        ("06", ["torchrun", "-m", "trl.scripts.dpo"]),
        ("08", ["torchrun", "--nproc-per-node=4", "-m", "trl.scripts.sft"]),
        ("09", ["bash", "-c"]),
        ("11", SFT),
        ("16", SFT),
        ("17", ["torchrun", "--", "-c", STRICT.format("trl.scripts.sft")]),
    ],
)
def test_the_launch_is_the_one_that_is_expected(muster, example, command):
    trainjob, jobset = rendered(muster, example)
    assert trainjob["spec"]["trainer"]["command"] == command
    pod = jobset["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == command


@pytest.mark.parametrize(
    ("example", "size"), [("01", "2"), ("02", "8"), ("03", "2"), ("05", "2"), ("06", "8"), ("08", "4"), ("13", "2")]
)
def test_the_guard_of_the_image_is_told_the_expected_world_size(muster, example, size):
    assert jobs.env(rendered(muster, example)[1])["MUSTER_EXPECTED_WORLD_SIZE"] == size


def test_a_plain_program_gets_its_ranks(muster):
    env = jobs.env(rendered(muster, "03")[1])
    assert env["WORLD_SIZE"] == "2"
    assert "job-completion-index" in str(env["RANK"])


def test_torchtune_keeps_the_dataset_that_was_downloaded(muster):
    trainjob, _ = rendered(muster, "04")
    command = trainjob["spec"]["trainer"]["command"]
    assert command[:5] == ["tune", "run", "lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"]
    assert "dataset.data_dir=/workspace/dataset/data" in command


def test_a_trainjob_without_a_trainer_section_gets_one_and_so_its_env(muster):
    trainjob, jobset = rendered(muster, "05")
    assert trainjob["spec"]["trainer"] == {}
    assert jobs.env(jobset)["PET_NNODES"] == "1"


def test_a_script_is_left_alone_and_gets_the_rendezvous(muster):
    trainjob, jobset = rendered(muster, "09")
    (came,) = (yaml.safe_load(path.read_text()) for path in PATHS if number(path) == "09")
    assert trainjob == came
    assert jobs.env(jobset)["MASTER_ADDR"] == "bash-script-node-0-0.bash-script"


def test_an_elastic_job_meets_by_c10d(muster):
    env = jobs.env(rendered(muster, "10")[1])
    assert (env["PET_RDZV_BACKEND"], env["PET_RDZV_ID"]) == ("c10d", "elastic-c10d")
    assert env["PET_RDZV_ENDPOINT"] == "elastic-c10d-node-0-0.elastic-c10d:29500"


def test_slices_of_a_gpu_do_not_start_a_process_for_each_cpu(muster):
    assert jobs.env(rendered(muster, "12")[1])["PET_NPROC_PER_NODE"] != "16"


def test_a_suspended_job_stays_suspended(muster):
    trainjob, jobset = rendered(muster, "16")
    assert trainjob["spec"]["suspend"] is jobset["spec"]["suspend"] is True


def test_a_sampler_is_reachable_and_may_sleep(muster):
    (jobset,) = rendered(muster, "15")
    (container,) = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["vllm", "serve"]
    assert "--enable-sleep-mode" in container["args"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"


def test_all_examples_at_once_are_each_what_they_are_alone(muster):
    together = [parsed.value for parsed in kubeyaml.load_all(muster("render", "-f", jobs.EXAMPLES).out)]
    alone = [parsed.value for path in PATHS for parsed in kubeyaml.load_all(muster("render", "-f", path).out)]
    assert together == alone


def test_both_roles_of_a_grpo_job_are_completed(muster):
    trainjob, jobset = rendered(muster, "20")
    assert trainjob["spec"]["trainer"]["args"][-2:] == [
        "--vllm_mode=server",
        "--vllm_server_base_url=http://$(MUSTER_SAMPLER):8000",
    ]
    sampler, node = (
        each["template"]["spec"]["template"]["spec"]["containers"][0] for each in jobset["spec"]["replicatedJobs"]
    )
    assert {"name": "MUSTER_SAMPLER", "value": "grpo-sampler-0-0.grpo"} in node["env"]
    assert {"name": "VLLM_SERVER_DEV_MODE", "value": "1"} in sampler["env"]
    assert sampler["args"][:2] == ["--model", "Qwen/Qwen2.5-1.5B-Instruct"]
