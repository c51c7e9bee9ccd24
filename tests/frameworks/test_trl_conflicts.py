"""trl: a flag that is given twice. The job's own words win over its runtime's; two of one author are refused."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import (
    NEEDED,
    enforce,
    found,
    gpus,
    jobset,
    refused,
    replicated_job,
    run,
    runtime,
    trainjob,
    warned,
)
from tests.frameworks.trl_jobs import METHOD

SFT = ["torchrun", "-m", "trl.scripts.sft"]
DEFAULTS = ["--model_name_or_path", "base", "--dataset_name=data", "--learning_rate", "1e-5"]


def governing(**container):
    return runtime("trl", **({"resources": gpus(1)} | container))


def argv(trainer, **container):
    """The command line that the pods of a job run in the end."""
    first, second = run("trl", trainjob(trainer), governing(**container))
    assert second.rules == []
    assert len(enforce("trl", first.document, governing(**container)).changes) == 0
    assert refused("trl", trainjob(trainer), governing(**container)) == []
    return second.argv


# --- the job's command before the runtime's args --------------------------------------------------------------------

OWN = {
    "a value": ("--model_name_or_path mine", DEFAULTS, ["--dataset_name=data", "--learning_rate", "1e-5"]),
    "a value behind =": ("--model_name_or_path=mine", DEFAULTS, ["--dataset_name=data", "--learning_rate", "1e-5"]),
    "another spelling": ("--learning-rate=2", DEFAULTS, ["--model_name_or_path", "base", "--dataset_name=data"]),
    "an abbreviation": ("--learning_rat=2", DEFAULTS, ["--model_name_or_path", "base", "--dataset_name=data"]),
    "the same value": ("--learning_rate 1e-5", DEFAULTS, ["--model_name_or_path", "base", "--dataset_name=data"]),
    "a switch": ("--bf16 false", ["--bf16", "true", *NEEDED], [*NEEDED]),
    "a switch's negation": ("--no_gradient_checkpointing", ["--gradient_checkpointing", *NEEDED], [*NEEDED]),
    "a list": (
        "--lora_target_modules q k --use_peft",
        ["--lora_target_modules", "a", "b", *NEEDED],
        [*NEEDED],
    ),
    "a file of settings": ("--config mine.yaml", ["--config", "base.yaml", *NEEDED], [*NEEDED]),
    "a flag of accelerate": ("--mixed_precision no", ["--mixed_precision=bf16", *NEEDED], [*NEEDED]),
}


@pytest.mark.parametrize(("own", "args", "left"), OWN.values(), ids=OWN)
def test_of_a_flag_that_both_give_the_runtimes_is_left_out(own, args, left):
    trainer = {"command": ["trl", "sft", *own.split()]}
    assert argv(trainer, args=args) == ["trl", "sft", *own.split(), *left]


def test_the_change_is_written_to_args_and_says_why():
    trainer = {"command": ["trl", "sft", "--model_name_or_path=mine"]}
    out = enforce("trl", trainjob(trainer), governing(args=DEFAULTS))
    assert [(change.path, change.rule) for change in out.changes] == [("/spec/trainer/args", "trl/overridden")]
    assert "its runtime, which also gives --model_name_or_path" in out.reasons


def test_where_nothing_of_the_runtime_is_left_the_jobs_own_words_are_the_args():
    trainer = {"command": ["trl", "sft", "--model_name_or_path=mine", "--dataset_name=own"]}
    out = enforce("trl", trainjob(trainer), governing(args=["--model_name_or_path=base"]))
    assert out.container["command"] == ["trl", "sft"]
    assert out.container["args"] == ["--model_name_or_path=mine", "--dataset_name=own"]


def test_a_launch_that_is_also_rewritten_keeps_the_jobs_words():
    trainer = {"command": ["trl", "sft", "--model_name_or_path=mine"], "numNodes": 2}
    left = ["--dataset_name=data", "--learning_rate", "1e-5"]
    assert argv(trainer, args=DEFAULTS) == [*SFT, "--model_name_or_path=mine", *left]


def test_the_jobs_method_wins_over_one_at_the_front_of_the_runtimes_args():
    trainer = {"command": ["trl", "dpo", "--model_name_or_path=mine"]}
    left = ["--dataset_name=data", "--learning_rate", "1e-5"]
    assert argv(trainer, args=["sft", *DEFAULTS]) == ["trl", "dpo", "--model_name_or_path=mine", *left]


def test_what_only_the_runtime_repeats_does_not_matter_beside_the_jobs_own():
    trainer = {"command": ["trl", "sft", "--seed=3"]}
    assert argv(trainer, args=[*NEEDED, "--seed=1", "--seed=2"]) == ["trl", "sft", "--seed=3", *NEEDED]


def test_the_jobs_own_words_also_win_where_a_file_of_trl_is_started():
    own = ["torchrun", "/workspace/trl/scripts/sft.py", "--seed=3"]
    assert argv({"command": own}, args=[*NEEDED, "--seed=1"]) == [*own, *NEEDED]
    document = trainjob({"command": own, "args": [*NEEDED, "--seed=1"]})
    assert [rule for *_, rule in refused("trl", document, governing())] == ["trl/flag-twice"]


# --- the runtime's command before the job's args --------------------------------------------------------------------


@pytest.mark.parametrize("command", [SFT, ["trl", "sft"]], ids=["torchrun", "trl"])
def test_args_of_the_job_already_win_over_the_runtimes_command(command):
    trainer = {"args": [*NEEDED, "--seed=3"]}
    out = enforce("trl", trainjob(trainer), governing(command=[*command, "--seed=1"]))
    assert len(out.changes) == 0
    assert refused("trl", trainjob(trainer), governing(command=[*command, "--seed=1"])) == []


def test_a_runtimes_command_that_is_rewritten_loses_what_the_jobs_args_give():
    trainer = {"args": [*NEEDED, "--seed=3"], "numNodes": 2}
    assert argv(trainer, command=["trl", "sft", "--seed", "1", "--packing"]) == [*SFT, "--packing", *NEEDED, "--seed=3"]


FIRST = {
    "a file of settings": (["--config", "base.yaml"], ["--config", "mine.yaml"], ["--config", "mine.yaml"]),
    "a preset": (
        ["--accelerate_config", "single_gpu"],
        ["--accelerate_config", "my.yaml"],
        ["--accelerate_config", "my.yaml"],
    ),
    "a number of accelerate's": (["--num_processes=8"], ["--num_processes=1"], ["--num_processes=1"]),
}


@pytest.mark.parametrize(("before", "behind", "left"), FIRST.values(), ids=FIRST)
def test_what_the_first_would_win_is_taken_from_the_runtimes_command(before, behind, left):
    trainer = {"args": [*NEEDED, *behind]}
    assert argv(trainer, command=["trl", "sft", *before]) == ["trl", "sft", *NEEDED, *left]


# --- one author -----------------------------------------------------------------------------------------------------

TWICE = {
    "a value": ("--seed 1 --seed 2", "spec.trainer.args[4]", "--seed 2"),
    "two spellings": ("--learning_rate=1 --learning-rat 2", "spec.trainer.args[3]", "--learning_rate 2"),
    "a switch and its negation": (
        "--gradient_checkpointing --no_gradient_checkpointing",
        "spec.trainer.args[3]",
        "--gradient_checkpointing false",
    ),
    "lists": (
        "--lora_target_modules a b --use_peft --lora_target_modules a",
        "spec.trainer.args[6]",
        "--lora_target_modules a",
    ),
    "files of settings": ("--config a.yaml --config b.yaml", "spec.trainer.args[4]", "--config b.yaml"),
    "two files of accelerate": (
        "--config_file mine.yaml --accelerate_config fsdp2",
        "spec.trainer.args[2]",
        "--config_file mine.yaml",
    ),
    "one file of settings twice": ("--config a.yaml --config a.yaml", "spec.trainer.args[4]", "--config a.yaml"),
}


@pytest.mark.parametrize(("written", "field", "value"), TWICE.values(), ids=TWICE)
@pytest.mark.parametrize("command", [["trl", "sft"], SFT], ids=["trl", "torchrun"])
def test_two_values_of_the_job_are_refused(command, written, field, value):
    document = trainjob({"command": command, "args": [*NEEDED, *written.split()]})
    assert (field, value, "trl/flag-twice") in refused("trl", document, governing())


def test_the_message_names_both_values_and_places():
    document = trainjob({"command": ["trl", "sft", "--seed=1"], "args": [*NEEDED, "--seed=2"]})
    (finding,) = found("trl", document, governing())
    assert (finding.field, finding.value) == ("spec.trainer.args[2]", "--seed 2")
    assert "stands beside --seed 1 (spec.trainer.command[2])" in finding.message


EQUAL = [
    "--seed 1 --seed=1",
    "--learning_rate 1e-5 --learning_rate 0.00001",
    "--bf16 false --bf16=no",
    "--packing --packing",
]


@pytest.mark.parametrize("written", EQUAL)
def test_the_same_value_twice_is_nothing_to_talk_about(written):
    document = trainjob({"command": ["trl", "sft"], "args": [*NEEDED, *written.split()]})
    assert found("trl", document, governing()) == []


def test_a_value_that_only_the_pod_knows_may_be_the_same():
    document = trainjob({"command": ["trl", "sft"], "args": [*NEEDED, "--seed=$(SEED)", "--seed=2"]})
    assert (refused("trl", document, governing()), warned("trl", document, governing())) == ([], ["trl/flag-twice"])


def test_a_runtime_that_gives_two_values_is_named():
    document = trainjob({"args": [*NEEDED]})
    findings = found("trl", document, governing(command=["trl", "sft", "--seed=1", "--seed=2"]))
    assert [(each.field, each.value, each.rule) for each in findings] == [
        ("spec.runtimeRef.name", "runtime", "trl/flag-twice")
    ]
    assert "gives --seed 1 and --seed 2" in findings[0].message


def test_a_jobset_is_one_author():
    container = {"name": "node", "command": ["trl", "sft", "--seed=1"], "args": [*NEEDED, "--seed=2"]}
    findings = found("trl", jobset(replicated_job("node", container), framework="trl"))
    assert [each.rule for each in findings if each.severity is Severity.ERROR] == ["trl/flag-twice"]


def test_values_that_add_up_may_stand_twice():
    document = trainjob({"command": ["trl", "sft"], "args": [*NEEDED, "--env", "A=1", "--env", "B=2"]})
    assert refused("trl", document, governing()) == []


# --- methods --------------------------------------------------------------------------------------------------------

FIGHTING = {
    "the command": ({"command": ["trl", "sft"], "args": list(NEEDED)}, "the job's command, sft"),
    "the first argument": ({"args": ["sft", *NEEDED]}, "sft, which would run"),
}


@pytest.mark.parametrize(("trainer", "words"), FIGHTING.values(), ids=FIGHTING)
def test_an_annotation_against_a_method_that_the_job_itself_writes_is_refused(trainer, words):
    document = trainjob(trainer, annotations={METHOD: "dpo"})
    mutated = enforce("trl", document, governing()).document
    (finding,) = found("trl", mutated, governing())
    assert (finding.field, finding.value) == (f"metadata.annotations[{METHOD}]", "dpo")
    assert words in finding.message


def test_an_annotation_of_the_runtime_is_a_default_that_a_job_may_change():
    document = trainjob({"command": ["trl", "sft"], "args": list(NEEDED)})
    assert found("trl", document, runtime("trl", resources=gpus(1), annotations={METHOD: "dpo"})) == []
