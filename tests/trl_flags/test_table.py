"""What the committed table says of TRL 1.16, and how a flag is looked up in it."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks.trl import flags


def test_the_methods_are_those_that_train():
    assert flags.methods() == {"sft", "dpo", "kto", "grpo", "rloo", "reward", "distillation"}
    assert flags.passthrough() == {"env", "vllm-serve"}
    assert flags.version() == "1.16.0"


@pytest.mark.parametrize("method", sorted(flags.methods()))
def test_every_flag_takes_values_in_a_way_that_the_parser_knows(method):
    specs = [*flags.script(method).specs.values(), *flags._launcher().specs.values()]
    assert {spec.nargs for spec in specs} <= {0, 1, "?", "+"}


def test_dashes_underscores_and_a_value_are_one_flag():
    spellings = ("--learning_rate", "--learning-rate", "--learning_rate=1", "--learning-rate=$(LR)")
    assert all(flags.spec("sft", each) == flags.spec("sft", "--learning_rate") for each in spellings)
    assert flags.spec("sft", "--learning_rate=1").name == "learning_rate"


def test_a_flag_of_one_method_is_unknown_to_another():
    assert flags.spec("sft", "--packing").default is False
    assert flags.spec("grpo", "--packing") is None


def test_a_negation_says_false_of_the_flag_that_it_negates():
    found = flags.spec("sft", "--no-gradient-checkpointing")
    assert (found.name, found.nargs, found.bare) == ("gradient_checkpointing", 0, False)


def test_bf16_wants_a_value_where_fp16_does_not():
    assert flags.spec("sft", "--bf16").nargs == 1
    assert flags.spec("sft", "--fp16").nargs == "?"


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no training method 'stf'; its methods are distillation, dpo, "):
        flags.spec("stf", "--packing")


def test_the_launchers_flags_are_known_apart():
    assert flags.launcher_spec("--num-machines=2").kind == "int"
    assert flags.launcher_spec("-m").name == "module"
    assert flags.launcher_spec("--packing") is None
    assert flags.spec("sft", "--num_machines") is None


def test_trl_sees_its_accelerate_config_only_with_a_space_after_it():
    assert flags.launcher_spec("--accelerate_config").nargs == 1
    assert flags.launcher_spec("--accelerate_config=fsdp2") is None
    assert flags.launcher_spec("--accelerate-config") is None


def test_the_presets_are_there_with_what_they_set():
    assert set(flags.presets()) == {"fsdp1", "fsdp2", "multi_gpu", "single_gpu", "zero1", "zero2", "zero3"}
    assert flags.presets()["zero3"]["num_processes"] == 8
    assert flags.preset_environment("multi_gpu") == {"ACCELERATE_MIXED_PRECISION": "bf16"}
    assert flags.preset_environment("fsdp2")["FSDP_VERSION"] == "2"


def test_an_unknown_preset_has_no_environment():
    with pytest.raises(KeyError):
        flags.preset_environment("fsdp3")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--learning_rte", "--learning_rate"),
        ("--per-device-train-batchsize", "--per_device_train_batch_size"),
        ("--num_machine=2", "--num_machines"),
        ("--config=run.yaml", "--config"),
        ("--accelerate-config", "--accelerate_config"),
        ("--frobnicate", None),
        ("-", None),
        ("--" + "x" * 100_000, None),
    ],
)
def test_the_closest_flag_is_suggested(typed, meant):
    assert flags.closest("sft", typed) == meant
