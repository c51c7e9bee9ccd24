"""trl: what is wrong with a script's arguments is said before a pod is scheduled, with the exact field."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
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
    warned,
)

ONE = runtime("trl", resources=gpus(1))
CPU = runtime("trl", resources={"limits": {"cpu": 4}})


def job(written, method="sft", **trainer):
    args = [*NEEDED, *written.split()]
    return trainjob({"command": ["trl", method], "args": args, "resourcesPerNode": gpus(1)} | trainer)


FAULTS = {
    "bf16 with fp16": ("--bf16=true --fp16", "spec.trainer.args[3]", "--fp16", "trl/precision"),
    "bf16 with fp16, with values": ("--fp16=true --bf16 True", "spec.trainer.args[2]", "--fp16", "trl/precision"),
    "four bits and eight": (
        "--load_in_4bit --load_in_8bit --use_peft",
        "spec.trainer.args[3]",
        "--load_in_8bit",
        "trl/quantisation",
    ),
    "LoRA without PEFT": ("--lora_r 8", "spec.trainer.args[2]", "--lora_r 8", "trl/peft"),
    "LoRA with PEFT switched off": (
        "--use_peft false --lora_alpha=8",
        "spec.trainer.args[4]",
        "--lora_alpha 8",
        "trl/peft",
    ),
    "DoRA without PEFT": ("--use_dora", "spec.trainer.args[2]", "--use_dora", "trl/peft"),
    "a misspelt flag": ("--learning_rte 1e-5", "spec.trainer.args[2]", "--learning_rte", "trl/unknown-flag"),
    "a switch without its value": ("--bf16", "spec.trainer.args[2]", "--bf16", "trl/arguments"),
    "a value that is not a number": (
        "--learning_rate fast",
        "spec.trainer.args[2]",
        "--learning_rate",
        "trl/arguments",
    ),
    "a value that is none of the choices": (
        "--save_strategy now",
        "spec.trainer.args[2]",
        "--save_strategy",
        "trl/arguments",
    ),
    "a missing value": ("--learning_rate", "spec.trainer.args[2]", "--learning_rate", "trl/arguments"),
    "a word that belongs to no flag": ("--learning_rate 1 more", "spec.trainer.args[4]", "more", "trl/arguments"),
}


@pytest.mark.parametrize(("written", "field", "value", "rule"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_at_its_place(written, field, value, rule):
    assert (field, value, rule) in refused("trl", job(written), ONE)


@pytest.mark.parametrize("command", ["trl sft", "torchrun -m trl.scripts.sft", "python -m trl.scripts.sft"])
def test_places_are_those_of_what_the_user_wrote(command):
    args = [*NEEDED, "--bf16=true", "--fp16"]
    for trainer, place in (
        ({"command": command.split(), "args": args}, "spec.trainer.args[3]"),
        ({"command": [*command.split(), *args]}, "spec.trainer.command[{}]"),
        ({"command": [*command.split(), *args[:1]], "args": args[1:]}, "spec.trainer.args[2]"),
    ):
        out = enforce("trl", trainjob(trainer), ONE).document
        errors = [each.field for each in found("trl", out, ONE) if each.rule == "trl/precision"]
        assert errors == [place.format(len(out["spec"]["trainer"]["command"]) - 1)]


def test_all_faults_are_told_at_once():
    rules = [rule for *_, rule in refused("trl", job("--bf16=true --fp16 --lora_r 8 --learning_rte 1"), ONE)]
    assert sorted(rules) == ["trl/peft", "trl/precision", "trl/unknown-flag"]


def message_of(document, rule, governing=ONE):
    return next(each.message for each in found("trl", document, governing) if each.rule == rule)


def test_an_unknown_flag_comes_with_the_nearest_known_one_and_the_version():
    message = message_of(job("--learning_rte 1"), "trl/unknown-flag")
    assert "did you mean --learning_rate?" in message
    assert f"trl {flags.version()}" in message
    assert "remove it" in message_of(job("--zzzzzz 1"), "trl/unknown-flag")


def test_only_the_first_unknown_flags_are_compared_with_the_known_ones():
    written = " ".join(f"--learning_rate{number} 1" for number in range(7))
    hints = [each.message for each in found("trl", job(written), ONE) if each.rule == "trl/unknown-flag"]
    assert ["did you mean" in hint for hint in hints] == [True] * 6 + [False]


def test_values_that_yaml_split_off_at_a_comma_are_told_how_to_be_written():
    message = message_of(job("--lora_target_modules=q_proj v_proj k_proj"), "trl/arguments")
    assert "is none of the values of --lora_target_modules, which takes one behind its =" in message
    assert "does not belong to a flag" in message_of(job("--seed=3 v_proj"), "trl/arguments")


def test_arguments_written_as_one_string_are_explained():
    document = trainjob({"command": ["trl", "sft"], "args": [" ".join(NEEDED)]})
    errors = [each for each in found("trl", document, ONE) if each.rule == "trl/arguments"]
    assert [each.field for each in errors] == ["spec.trainer.args[0]"] * len(errors)
    document = trainjob({"command": ["trl", "sft"], "args": ["--model_name_or_path m --dataset_name d"]})
    assert "reaches the program as one word" in message_of(document, "trl/arguments")


CLEAN = {
    "a plain job": ("", {}),
    "bf16 alone": ("--bf16 true", {}),
    "fp16 alone": ("--fp16 true --bf16 false", {}),
    "LoRA": ("--use_peft --lora_r 8 --lora_target_modules q_proj v_proj", {}),
    "LoRA, perhaps": ("--use_peft $(PEFT) --lora_r 8", {}),
    "LoRA, perhaps in a file": ("--config f.yaml --lora_r 8", {}),
    "flags, perhaps of an env": ("$(MORE) --lora_r 8", {}),
    "bf16, perhaps": ("--bf16 $(BF16) --fp16", {}),
    "a number, perhaps": ("--learning_rate $(LR)", {}),
    "a flag cut short": ("--gradient_acc 2", {}),
    "a flag with dashes": ("--learning-rate 1", {}),
}


@pytest.mark.parametrize(("written", "trainer"), CLEAN.values(), ids=CLEAN)
def test_nothing_is_said_of(written, trainer):
    assert found("trl", enforce("trl", job(written, **trainer), ONE).document, ONE) == []


# --- what must be there ---------------------------------------------------------------------------------------------

REQUIRED = {
    "the model": ("sft", "--dataset_name=d", ["--model_name_or_path"]),
    "the dataset": ("sft", "--model_name_or_path=m", ["--dataset_name"]),
    "both": ("dpo", "", ["--model_name_or_path", "--dataset_name"]),
    "the teacher": ("distillation", " ".join(NEEDED), ["--teacher_model_name_or_path"]),
    "nothing that a file may hold": ("sft", "--config f.yaml", []),
    "nothing that an env may hold": ("sft", "$(ARGS)", []),
}


@pytest.mark.parametrize(("method", "written", "missing"), REQUIRED.values(), ids=REQUIRED)
def test_a_missing_argument_is_named(method, written, missing):
    document = trainjob({"command": ["trl", method], "args": written.split()})
    errors = [each for each in found("trl", document, ONE) if each.rule == "trl/required"]
    assert [each.message.split(" ")[0] for each in errors] == missing
    assert {each.field for each in errors} <= {"spec.trainer.args"}


# --- a vLLM server --------------------------------------------------------------------------------------------------

SERVERS = {
    "no server": ("--use_vllm --vllm_mode server", True),
    "a server's address": ("--use_vllm --vllm_mode server --vllm_server_base_url http://h:8000", False),
    "a server's host": ("--use_vllm --vllm_mode server --vllm_server_host h", False),
    "beside the training": ("--use_vllm --vllm_mode colocate", False),
    "the mode that is the default": ("--use_vllm", False),
    "no vLLM": ("--vllm_mode server", False),
    "a file that may name it": ("--use_vllm --vllm_mode server --config f.yaml", False),
}


@pytest.mark.parametrize(("written", "faulty"), SERVERS.values(), ids=SERVERS)
@pytest.mark.parametrize("method", ["grpo", "rloo"])
def test_a_server_mode_without_a_server_is_refused(method, written, faulty):
    rules = [rule for *_, rule in refused("trl", job(written, method), ONE)]
    assert ("trl/vllm-server" in rules) is faulty


ONE_ON_CPU = {"resourcesPerNode": {"limits": {"cpu": 2}}}


@pytest.mark.parametrize("method", ["grpo", "rloo"])
@pytest.mark.parametrize("mode", ["", "--vllm_mode colocate"])
def test_an_engine_within_the_trainer_is_refused_on_cpu_where_it_takes_no_weights(method, mode):
    (found,) = refused(
        "trl",
        job(f"--use_cpu --bf16 false --use_vllm {mode} --reward_funcs think_format_reward", method, **ONE_ON_CPU),
        CPU,
    )
    assert found[1:] == ("--use_vllm", "trl/vllm-cpu")


ON_DEVICES = {
    "a server": ("--use_cpu --bf16 false --use_vllm --vllm_mode server --vllm_server_host h", ONE_ON_CPU),
    "a trainer that may find a GPU": ("--use_vllm", ONE_ON_CPU),
    "an engine on a GPU": ("--use_cpu --bf16 false --use_vllm", {}),
    "no vLLM": ("--use_cpu --bf16 false", ONE_ON_CPU),
}


@pytest.mark.parametrize(("written", "more"), ON_DEVICES.values(), ids=ON_DEVICES)
def test_an_engine_that_may_take_weights_is_not(written, more):
    assert "trl/vllm-cpu" not in [rule for *_, rule in refused("trl", job(written, "grpo", **more), CPU)]


def test_a_server_may_run_beside_the_training_in_its_pod():
    server = {"name": "vllm", "image": "i", "restartPolicy": "Always"}
    governing = runtime("trl", resources=gpus(1), pod={"initContainers": [server]})
    assert refused("trl", job("--use_vllm --vllm_mode server --reward_funcs r.f", "grpo"), governing) == []


# --- CPU ------------------------------------------------------------------------------------------------------------

TWO_ON_CPU = {"numNodes": 2, "resourcesPerNode": {"limits": {"cpu": 2}}}


def test_a_backend_for_devices_on_cpu_is_refused():
    errors = refused("trl", job("--use_cpu --ddp_backend nccl", **TWO_ON_CPU), CPU)
    assert errors == [("spec.trainer.args[3]", "--ddp_backend nccl", "trl/backend")]


@pytest.mark.parametrize("written", ["", "--ddp_backend gloo", "--ddp_backend mpi", "--ddp_backend $(BACKEND)"])
def test_a_backend_that_knows_cpus_passes(written):
    document = enforce("trl", job(f"--use_cpu {written}", **TWO_ON_CPU), CPU).document
    assert found("trl", document, CPU) == []


def test_cpu_that_nobody_asked_for_in_words_is_warned_of():
    assert warned("trl", job("", **TWO_ON_CPU), CPU) == ["trl/cpu"]
    assert warned("trl", job("--config f.yaml", **TWO_ON_CPU), CPU) == []


@pytest.mark.parametrize(
    "resource", ["habana.ai/gaudi", "huawei.com/Ascend910", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu"]
)
def test_an_accelerator_by_any_name_is_no_cpu(resource):
    count = 1 if "mig" in resource else 2
    asked = {"limits": {resource: count}}
    document = job("--ddp_backend hccl", numNodes=2, numProcPerNode=count, resourcesPerNode=asked)
    assert found("trl", enforce("trl", document, CPU).document, CPU) == []


# --- another version of TRL -----------------------------------------------------------------------------------------


def test_what_only_this_version_of_trl_knows_is_a_warning_for_an_image_of_ones_own():
    document = job("--brand_new_flag 1 --bf16=1 --fp16", image="example.org/my-trl:2")
    assert [rule for *_, rule in refused("trl", document, ONE)] == ["trl/precision"]
    assert warned("trl", document, ONE) == ["trl/unknown-flag"]
    container = {"name": "node", "image": "i", "command": ["trl", "sft"], "args": ["--brand_new_flag=1", *NEEDED]}
    findings = found("trl", jobset(replicated_job("node", container), framework="trl"))
    assert [(each.severity, each.rule) for each in findings] == [(Severity.WARNING, "trl/unknown-flag")]


def test_a_method_that_trl_does_not_have_is_named():
    document = trainjob({"args": list(NEEDED)}, annotations={"muster.dev/trl-method": "stf"})
    ((field, value, rule),) = refused("trl", document, ONE)
    assert (field, value, rule) == ("metadata.annotations[muster.dev/trl-method]", "stf", "trl/method")


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(("written", "meant"), [("stf", "sft"), ("SFT", "sft"), ("gpro", "grpo"), ("sft_", "sft")])
def test_a_command_that_trl_does_not_have_is_refused_with_the_one_that_was_meant(written, meant, nodes):
    (finding,) = found("trl", trainjob({"command": ["trl", written], "numNodes": nodes, "args": NEEDED}), ONE)
    assert (finding.rule, finding.severity, finding.value) == ("trl/method", Severity.ERROR, written)
    assert finding.field == "spec.trainer.command[1]"
    assert f"did you mean {meant}?" in finding.message


def test_a_command_that_another_version_of_trl_may_have_is_a_warning_in_an_image_of_the_user():
    (finding,) = found("trl", trainjob({"command": ["trl", "ppo"], "image": "their/trl:0.9"}), ONE)
    assert (finding.rule, finding.severity) == ("trl/method", Severity.WARNING)


@pytest.mark.parametrize("args", [[], NEEDED], ids=["nothing", "flags alone"])
@pytest.mark.parametrize("image", [{}, {"image": "their/trl:0.9"}], ids=["ours", "theirs"])
def test_trl_without_a_method_which_ends_with_0_and_trains_nothing_is_refused(args, image):
    (finding,) = found("trl", trainjob({"command": ["trl"], "args": args, "numNodes": 2, **image}), ONE)
    assert (finding.rule, finding.severity) == ("trl/method", Severity.ERROR)
    assert "trains nothing" in finding.message


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["sft"], ["env"]], ids=" ".join)
def test_trl_that_is_asked_for_its_help_or_given_its_method_as_an_argument_is_no_trl_without_one(words):
    findings = found("trl", trainjob({"command": ["trl"], "args": [*words, *NEEDED]}), ONE)
    assert "trl/method" not in [each.rule for each in findings]


@pytest.mark.parametrize("command", [["python", "train.py"], ["torchrun", "train.py"], ["trl", "env"]])
def test_a_program_without_a_method_has_no_wrong_one(command):
    assert found("trl", trainjob({"command": command}), ONE) == []


def test_a_method_that_trl_has_is_not_talked_about():
    document = trainjob({"args": list(NEEDED)}, annotations={"muster.dev/trl-method": "sft"})
    assert refused("trl", document, ONE) == []


def test_a_jobset_of_trainers_was_judged_with_its_trainjob():
    document = jobset(replicated_job("node", {"name": "node", "command": ["trl", "sft", "--oops"]}), framework="trl")
    assert found("trl", document, ONE, owner=trainjob({})) == []
