"""trl: one node, CPUs, and numbers on the command line: nothing that works today is made worse."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from muster.strategies.launches.launches import STRICT
from tests.frameworks.builders import NEEDED, enforce, found, run, runtime, trainjob
from tests.frameworks.trl_jobs import CLAIM, FOUR_GPUS, ONE_GPU, TORCHRUN_SFT, TWO_NODES, enforced

ALONE = {
    "one GPU": ("trl sft", ONE_GPU, {}),
    "one GPU and flags of accelerate": ("trl sft --mixed_precision bf16", ONE_GPU, {}),
    "one process on purpose": ("trl sft --num_processes 1", FOUR_GPUS, {}),
    "fewer processes on purpose": ("trl sft --num_processes=2", FOUR_GPUS, {}),
    "processes of an env": ("trl sft --num_processes $(N)", FOUR_GPUS, {}),
    "flags of accelerate": ("trl sft --use_fsdp --fsdp_version 2", FOUR_GPUS, {}),
    "a configuration of accelerate's of one's own": ("trl sft --accelerate_config my.yaml", FOUR_GPUS, {}),
    "the preset for one GPU": ("trl sft --accelerate_config single_gpu", FOUR_GPUS, {}),
    "a file that may hold settings of accelerate": ("trl sft --config sft.yaml", FOUR_GPUS, {}),
    "a claim of unknown size": ("trl sft", CLAIM, {}),
    "an accelerator of unknown processes": ("trl sft", {"resources": {"limits": {"google.com/tpu": 8}}}, {}),
    "python and one GPU": ("python -m trl.scripts.sft", ONE_GPU, {}),
}


@pytest.mark.parametrize(("command", "governing", "trainer"), ALONE.values(), ids=ALONE)
def test_on_one_node_a_launch_that_works_stays_as_it_is(command, governing, trainer):
    out = enforced(command, trainer, **governing)
    assert [change.path for change in out.changes] == []
    assert out.argv == [*command.split(), *NEEDED]


SEVERAL = {
    "all of four GPUs": ("trl sft", {}, FOUR_GPUS, TORCHRUN_SFT),
    "two of four GPUs, by the job's number": ("trl sft", {"numProcPerNode": 2}, FOUR_GPUS, TORCHRUN_SFT),
    "one of four GPUs, by the job's number": ("trl sft", {"numProcPerNode": 1}, FOUR_GPUS, TORCHRUN_SFT),
    "GPUs behind an override": (
        "trl sft",
        {"resourcesPerNode": {"limits": {"memory": "1Gi"}}},
        FOUR_GPUS,
        TORCHRUN_SFT,
    ),
    "another maker's accelerators": ("trl sft", {}, {"resources": {"limits": {"habana.ai/gaudi": 8}}}, TORCHRUN_SFT),
    "what torchrun would hang on, on one GPU too": ("torchrun --no-python trl sft", {}, ONE_GPU, TORCHRUN_SFT),
    "what torchrun would hang on": ("torchrun --no-python trl sft", {}, FOUR_GPUS, TORCHRUN_SFT),
    "what python would leave idle": (
        "python -m trl.scripts.sft",
        {},
        FOUR_GPUS,
        ["python", "-m", "torch.distributed.run", "-m", "trl.scripts.sft"],
    ),
}


@pytest.mark.parametrize(("command", "trainer", "governing", "wanted"), SEVERAL.values(), ids=SEVERAL)
def test_on_one_node_torchrun_starts(command, trainer, governing, wanted):
    assert enforced(command, trainer, **governing).container["command"] == wanted


# --- CPU ------------------------------------------------------------------------------------------------------------

CPU8 = {"resources": {"limits": {"cpu": 8}}}


@pytest.mark.parametrize("command", ["trl sft", "python -m trl.scripts.sft"])
def test_on_cpu_a_node_keeps_the_one_process_that_its_launch_starts(command):
    out = enforced(command, {}, **CPU8)
    assert out.container["command"] == command.split()
    assert out.container["numProcPerNode"] == 1
    assert "one process per node on CPU" in out.reasons
    first, second = run("trl", out.document, runtime("trl", **CPU8))
    assert (len(first.changes), second.env["MUSTER_EXPECTED_WORLD_SIZE"]) == (0, "1")


def test_on_two_cpu_nodes_there_are_two_processes_and_not_sixteen():
    out = enforced("trl sft", **CPU8)
    assert (out.container["command"], out.container["numProcPerNode"]) == (TORCHRUN_SFT, 1)


def test_a_number_of_cpu_processes_that_was_asked_for_is_started():
    out = enforced("trl sft", {"numProcPerNode": 4}, **CPU8)
    assert (out.container["command"], out.container["numProcPerNode"]) == (TORCHRUN_SFT, 4)


def test_torchrun_on_cpu_starts_what_trainer_counts():
    assert "numProcPerNode" not in enforced("torchrun -m trl.scripts.sft", **CPU8).container


# --- numbers on the command line ------------------------------------------------------------------------------------

NUMBERS = {
    "the number of all nodes together": ("--num_machines 2 --num_processes 8", []),
    "the number of all nodes, without machines": ("--num_processes=8", []),
    "fewer than there are GPUs": ("--num_machines 2 --num_processes 4", ["--nproc_per_node=2"]),
    "a number that was written for one node": ("--num_processes 2", ["--nproc_per_node=2"]),
    "one process on each": ("--num_processes 1", ["--nproc_per_node=1"]),
    "a number of an env": ("--num_processes $(N)", ["--nproc_per_node=$(N)"]),
    "the preset for one GPU": ("--accelerate_config single_gpu", ["--nproc_per_node=1"]),
    "all of accelerate's words for where": (
        "--multi_gpu --machine_rank $(R) --main_process_ip h --main_process_port 1 --same_network",
        [],
    ),
    "another backend": ("--rdzv_backend c10d", ["--rdzv_backend=c10d"]),
    "what torchrun has words for": ("--max_restarts 3 --tee 3", ["--max_restarts=3", "--tee=3"]),
}


@pytest.mark.parametrize(("written", "options"), NUMBERS.values(), ids=NUMBERS)
def test_flags_of_accelerate_that_torchrun_has_words_for_are_translated(written, options):
    out = enforced("trl sft", args=[*NEEDED, *written.split()], **FOUR_GPUS)
    assert out.container["command"] == ["torchrun", *options, "-m", "trl.scripts.sft"]
    assert out.container["args"] == list(NEEDED)


def test_the_number_of_a_torchrun_around_trl_is_torchruns():
    out = enforced("torchrun --nproc_per_node=2 --no-python trl sft", args=[*NEEDED, "--num_processes=8"], **FOUR_GPUS)
    assert out.container["command"] == ["torchrun", "--nproc_per_node=2", "-m", "trl.scripts.sft"]


def test_a_claim_of_unknown_size_is_counted_by_torchrun():
    out = enforced("trl sft", **CLAIM)
    assert out.container["command"] == ["torchrun", "--nproc_per_node=gpu", "-m", "trl.scripts.sft"]
    assert out.rules == ["trl/processes"]


CONTRADICTIONS = {
    "more machines than nodes": ("--num_machines 4", {}, "--num_machines is 4, and the job has 2 nodes"),
    "machines on one node": ("--num_machines 2", {"numNodes": 1}, "--num_machines is 2, and the job has 1 node;"),
    "processes that cannot be divided": ("--num_machines 2 --num_processes 3", {}, "cannot be divided among 2 nodes"),
    "more processes than there are GPUs": (
        "--num_machines 2 --num_processes 32",
        {},
        "--num_processes 32 asks for 16 processes on each node, and each has 4 GPUs; remove it, or set 8",
    ),
    "more processes than there are GPUs, for each node": ("--num_processes 6", {}, "6 processes on each node"),
    "more processes than there are GPUs, with a preset": (
        "--accelerate_config zero3 --num_processes 8",
        {"numNodes": 1},
        "asks for 8 processes, and the node has 4 GPUs; remove it, or set 4",
    ),
    "more GPUs by number than there are": (
        "--gpu_ids 0,1,2,3,4 --use_fsdp",
        {},
        "--gpu_ids 0,1,2,3,4 asks for 5 processes on each node",
    ),
    "a very long number": ("--num_processes " + "9" * 50, {}, "1000000000 processes on each node"),
    "processes of an env for several machines": (
        "--num_machines 2 --num_processes $(N)",
        {"env": [{"name": "N", "valueFrom": {"configMapKeyRef": {"name": "numbers", "key": "n"}}}]},
        "cannot be divided",
    ),
}


@pytest.mark.parametrize(("written", "trainer", "words"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_numbers_that_contradict_are_refused_and_not_rewritten(written, trainer, words):
    document = trainjob({"command": ["trl", "sft"], "args": [*NEEDED, *written.split()]} | TWO_NODES | trainer)
    governing = runtime("trl", **FOUR_GPUS)
    assert len(enforce("trl", document, governing).changes) == 0
    (finding,) = found("trl", document, governing)
    assert (finding.rule, finding.field) == ("trl/launch", "spec.trainer.args")
    assert words in finding.message


def test_a_file_of_settings_on_two_nodes_is_warned_of():
    out = enforced("trl sft", args=["--config", "sft.yaml"])
    assert out.container["command"] == ["torchrun", "--", "-c", STRICT.format("trl.scripts.sft")]
    assert out.container["args"] == ["--config", "sft.yaml"]
    assert out.rules == ["trl/launch"]
    assert "cannot read sft.yaml" in out.warnings[0]
    assert [each.severity for each in out.changes.findings] == [Severity.NOTE]


def test_more_processes_than_mig_slices_that_a_process_can_use_are_refused():
    document = trainjob({"command": ["trl", "sft"], "args": [*NEEDED, "--num_processes", "2"]})
    governing = runtime("trl", resources={"limits": {"nvidia.com/mig-1g.10gb": 2}})
    document["spec"]["trainer"]["numNodes"] = 2
    assert "trl/launch" not in {each.rule for each in found("trl", document, governing)}
    document["spec"]["trainer"]["args"][-1] = "4"
    (message,) = [each.message for each in found("trl", document, governing) if each.rule == "trl/launch"]
    assert "each has 1 MIG slice that a process can use" in message


@pytest.mark.parametrize("written", ["--num_processes 6", "--num_machines 2 --num_processes 32"])
def test_a_number_is_not_compared_with_devices_that_nobody_counted(written):
    out = enforced("trl sft", args=[*NEEDED, *written.split()], **CLAIM)
    assert any(option.startswith("--nproc_per_node=") for option in out.container["command"])
