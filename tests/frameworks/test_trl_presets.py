"""`--accelerate_config` and accelerate's own flags: translated exactly, launched with all their numbers, or refused."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks.trl import flags
from tests.frameworks.builders import (
    NEEDED,
    enforce,
    found,
    gpus,
    jobset,
    refused,
    replicated_job,
    runtime,
    trainjob,
)

FOUR = runtime("trl", resources=gpus(4))
CPU = runtime("trl", resources={"limits": {"cpu": 4}})
TORCHRUN = ["torchrun", "-m", "trl.scripts.sft"]
TWO = {"numNodes": 2}


def job(written, trainer=None):
    own = {"command": ["trl", "sft"], "args": [*NEEDED, *written.split()]}
    return trainjob(own | (TWO if trainer is None else trainer))


def enforced(written, trainer=None, governing=FOUR):
    return enforce("trl", job(written, trainer), governing)


def multi_node(processes, *extra, nodes=2, host="PET_MASTER_ADDR", port="PET_MASTER_PORT"):
    """All that accelerate launch needs on several nodes."""
    return [
        *extra,
        *("--num_machines", str(nodes), "--num_processes", str(processes), "--machine_rank", "$(PET_NODE_RANK)"),
        *("--main_process_ip", f"$({host})", "--main_process_port", f"$({port})"),
    ]


# --- packaged presets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", sorted(flags.presets()))
def test_a_packaged_preset_becomes_the_env_that_it_stands_for(preset):
    out = enforced(f"--accelerate_config {preset}")
    options = ["--nproc_per_node=1"] if preset == "single_gpu" else []
    assert out.container["command"] == ["torchrun", *options, "-m", "trl.scripts.sft"]
    assert out.container["args"] == list(NEEDED)
    assert out.env == dict(flags.preset_environment(preset))
    assert f"preset {preset} is kept as its env" in out.reasons
    assert out.warnings == []


@pytest.mark.parametrize("preset", sorted(set(flags.presets()) - {"single_gpu"}))
@pytest.mark.parametrize("resources", [gpus(1), gpus(4), gpus(8)], ids=["one GPU", "four GPUs", "eight GPUs"])
def test_a_preset_never_starts_its_eight_processes_on_one_node_either(preset, resources):
    out = enforced(f"--accelerate_config {preset}", {}, runtime("trl", resources=resources))
    assert out.container["command"] == TORCHRUN
    assert "numProcPerNode" not in out.container


def test_a_number_beside_a_preset_is_kept():
    out = enforced("--accelerate_config fsdp2 --num_processes 2", {})
    assert out.container["command"] == ["torchrun", "--nproc_per_node=2", "-m", "trl.scripts.sft"]


def test_env_that_the_job_sets_itself_stays_and_is_reported():
    document = job("--accelerate_config fsdp2")
    document["spec"]["trainer"]["env"] = [
        {"name": "FSDP_VERSION", "value": "1"},
        {"name": "ACCELERATE_USE_FSDP", "value": "true"},
    ]
    out = enforce("trl", document, FOUR)
    assert out.env["FSDP_VERSION"] == "1"
    (finding,) = out.changes.findings
    assert (finding.field, finding.value) == ("spec.trainer.env[FSDP_VERSION]", "1")
    assert "'2'" in finding.message


PRESENT = [{"name": "FSDP_VERSION", "value": "1"}]


def test_env_that_the_runtime_sets_stays_and_is_reported():
    out = enforced("--accelerate_config fsdp2", governing=runtime("trl", resources=gpus(4), env=PRESENT))
    assert "FSDP_VERSION" not in out.env
    assert [(each.field, each.value) for each in out.changes.findings] == [("spec.trainer.env[FSDP_VERSION]", "1")]


def test_a_preset_on_a_jobset_is_env_of_its_container():
    container = {"name": "node", "command": ["trl", "sft"], "args": ["--accelerate_config", "fsdp2"], "env": PRESENT}
    out = enforce("trl", jobset(replicated_job("node", container | {"resources": gpus(2)}), framework="trl"))
    assert (out.argv, out.env["FSDP_VERSION"], out.env["ACCELERATE_USE_FSDP"]) == (TORCHRUN, "1", "true")
    assert out.changes.findings[0].field.endswith("containers[node].env[FSDP_VERSION]")


def test_a_preset_with_other_flags_of_accelerate_keeps_trl_and_gets_all_numbers():
    out = enforced("--accelerate_config fsdp2 --mixed_precision fp16")
    assert out.container["command"] == ["trl", "sft"]
    assert out.container["args"] == [
        *NEEDED,
        *("--accelerate_config", "fsdp2", "--mixed_precision", "fp16"),
        *multi_node(8),
    ]


def test_deepspeed_on_one_node_needs_no_launcher_over_ssh():
    out = enforced("--accelerate_config zero2 --use_deepspeed", {})
    assert out.argv[2 + len(NEEDED) :] == ["--accelerate_config", "zero2", "--use_deepspeed", *multi_node(4, nodes=1)]


def test_a_preset_with_other_flags_on_one_cpu_is_no_reason_to_refuse():
    written = "--accelerate_config multi_gpu --mixed_precision no"
    assert enforced(written, {}, runtime("trl")).argv[-10:] == multi_node(1, nodes=1)


def test_a_preset_with_other_flags_loses_its_eight_processes_on_one_node_too():
    out = enforced("--accelerate_config multi_gpu --mixed_precision fp16", {})
    assert out.argv[-13:] == ["--mixed_precision", "fp16", *multi_node(4, "--multi_gpu", nodes=1)]


# --- a configuration of one's own -----------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["--accelerate_config /etc/my.yaml", "--accelerate_config fsdp3"])
def test_a_file_of_ones_own_gets_all_numbers_and_a_caveat(written):
    out = enforced(written)
    assert out.container["command"] == ["trl", "sft"]
    assert out.container["args"] == [*NEEDED, *written.split(), *multi_node(8)]
    (finding,) = out.changes.findings
    assert "check its distributed_type" in finding.message
    assert written.split()[1] in finding.message


def test_the_form_with_an_equals_sign_is_what_trl_does_not_understand():
    fields = refused("trl", job("--accelerate_config=fsdp2"), FOUR)
    assert [(field, rule) for field, _, rule in fields] == [("spec.trainer.args[2]", "trl/unknown-flag")]


# --- flags of accelerate --------------------------------------------------------------------------------------------

OWN = {
    "precision": ("--mixed_precision bf16", ["--multi_gpu"], 8),
    "a backend of its own stays": ("--mixed_precision bf16 --rdzv_backend c10d", ["--multi_gpu"], 8),
    "threads": ("--num_cpu_threads_per_process=4", ["--multi_gpu"], 8),
    "FSDP": ("--use_fsdp --fsdp_version 2", [], 8),
    "DeepSpeed, which would look for ssh": (
        "--use_deepspeed --zero_stage 2",
        ["--deepspeed_multinode_launcher", "standard"],
        8,
    ),
    "DeepSpeed with a launcher": ("--use_deepspeed --deepspeed_multinode_launcher nossh", [], 8),
    "some of the GPUs": ("--gpu_ids 0,1", ["--multi_gpu"], 4),
    "one of the GPUs": ("--gpu_ids 0", ["--multi_gpu"], 2),
}


@pytest.mark.parametrize(("written", "extra", "processes"), OWN.values(), ids=OWN)
def test_flags_of_accelerate_keep_trl_and_get_all_of_its_numbers(written, extra, processes):
    out = enforced(written)
    assert out.container["command"] == ["trl", "sft"]
    assert out.container["args"] == [*NEEDED, *written.split(), *multi_node(processes, *extra)]


def test_numbers_that_were_written_are_replaced_by_right_ones():
    out = enforced("--mixed_precision bf16 --num_machines 2 --num_processes 4 --machine_rank 0 --multi_gpu")
    assert out.container["args"] == [*NEEDED, "--mixed_precision", "bf16", *multi_node(4, "--multi_gpu")]


def test_a_subdomain_makes_the_address_ours():
    governing = runtime("trl", resources=gpus(4), network={"subdomain": "net"})
    out = enforced("--mixed_precision bf16", governing=governing)
    assert out.argv[-4:] == ["--main_process_ip", "$(MASTER_ADDR)", "--main_process_port", "$(MASTER_PORT)"]


def test_the_interpreter_of_trl_stays():
    document = trainjob({"command": ["python", "-m", "trl", "sft", *NEEDED, "--mixed_precision=bf16"]} | TWO)
    assert enforce("trl", document, FOUR).argv[:4] == ["python", "-m", "trl", "sft"]


def test_an_implied_method_on_one_node_starts_trl_with_its_flags_and_nothing_else():
    document = trainjob({"args": ["sft", *NEEDED, "--mixed_precision=bf16"]})
    assert enforce("trl", document, FOUR).argv == ["trl", "sft", *NEEDED, "--mixed_precision=bf16"]


@pytest.mark.parametrize("written", [written for written, *_ in OWN.values()])
def test_a_second_pass_changes_nothing(written):
    out = enforced(written)
    assert len(enforce("trl", out.document, FOUR).changes) == 0


CLAIM = {
    "resources": {"claims": [{"name": "gpu"}]},
    "pod": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
}
REFUSED = {
    "on CPU": ("--mixed_precision bf16", CPU, "do not reliably span processes on CPU"),
    "on CPU by its own flag": ("--cpu", FOUR, "do not reliably span processes on CPU"),
    "with a number that only the pod knows": (
        "--mixed_precision bf16 --num_processes $(N)",
        FOUR,
        "the number of processes is not known",
    ),
    "with a claim of unknown size": ("--mixed_precision bf16", runtime("trl", **CLAIM), "set numProcPerNode"),
}


@pytest.mark.parametrize(("written", "governing", "words"), REFUSED.values(), ids=REFUSED)
def test_flags_of_accelerate_are_refused_on_several_nodes(written, governing, words):
    out = enforced(written, governing=governing)
    assert out.argv == ["trl", "sft", *NEEDED, *written.split()]
    errors = [each for each in found("trl", out.document, governing) if each.rule == "trl/launch"]
    assert [error.field for error in errors] == ["spec.trainer.args"]
    assert words in errors[0].message


def test_a_refused_launch_without_args_is_found_in_the_command():
    document = trainjob({"command": ["trl", "sft", *NEEDED, "--num_machines=3"]} | TWO)
    assert refused("trl", document, FOUR) == [("spec.trainer.command", "trl sft", "trl/launch")]


@pytest.mark.parametrize("form", ["torchrun -m trl.scripts.sft", "python -m trl.scripts.sft"])
def test_flags_of_accelerate_under_a_script_are_refused(form):
    document = trainjob({"command": form.split(), "args": [*NEEDED, "--num_processes", "1"]})
    governing = runtime("trl", resources=gpus(1))
    errors = [(each.rule, each.field, each.value) for each in found("trl", document, governing)]
    assert errors == [("trl/launcher-flag", "spec.trainer.args[2]", "--num_processes")]
