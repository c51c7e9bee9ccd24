"""A command line, read the way TRL reads it; tests/contract/trl proves the same against TRL itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.frameworks.flag_tables import Fault
from muster.strategies.frameworks.trl import flags

WORDS = st.one_of(
    st.sampled_from(sorted(flags.script("grpo").specs)),
    st.sampled_from(sorted(flags._launcher().specs)),
    st.sampled_from(
        ["--config", "--", "-", "", "-1", "-1e-5", "$(X)", "--$(X)=1", "--learning_r", "--s", "a b", "-a b"]
    ),
    st.text(max_size=12),
)


def read(line, method="sft"):
    return flags.parse(method, line.split())


def reasons(line, method="sft"):
    return [(fault.index, fault.token, fault.reason) for fault in read(line, method).faults]


@pytest.mark.parametrize("spelling", ["--bf16 true", "--bf16 T", "--bf16=yes", "--bf16 false --bf16 1"])
def test_a_switch_is_on_in_every_way_to_say_so(spelling):
    assert read(spelling).values == {"bf16": True}


@pytest.mark.parametrize("spelling", ["--bf16 false", "--bf16 N", "--bf16=0", "--bf16 true --bf16 no"])
def test_a_switch_is_off_in_every_way_to_say_so(spelling):
    assert read(spelling).values == {"bf16": False}


def test_a_bare_switch_is_on_and_its_negation_off():
    assert read("--packing --use-peft").values == {"packing": True, "use_peft": True}
    assert read("--gradient_checkpointing --no_gradient_checkpointing").values == {"gradient_checkpointing": False}


def test_values_are_kept_as_they_were_written():
    assert read("--learning-rate 2e-5 --output_dir=/mnt/o=1 --fsdp").values == {
        "learning_rate": "2e-5",
        "output_dir": "/mnt/o=1",
        "fsdp": True,
    }


def test_a_list_ends_at_the_next_flag():
    line = "--reward_funcs a.b accuracy_reward --use_vllm --reward_weights -1 0.5"
    assert read(line, "grpo").values == {
        "reward_funcs": ["a.b", "accuracy_reward"],
        "use_vllm": True,
        "reward_weights": ["-1", "0.5"],
    }


def test_each_value_says_where_it_stood():
    assert read("--packing --seed 1 --seed 2").places == {"packing": 0, "seed": 3}


def test_an_abbreviation_is_read_as_trl_reads_it():
    assert read("--output_d o --data_see=3").values == {"output_dir": "o", "data_seed": "3"}


def test_an_ambiguous_abbreviation_is_a_fault():
    assert reasons("--seed 1 --output 2") == [
        (2, "--output", "is ambiguous: it may stand for --output-dir or --output_dir")
    ]


def test_launcher_flags_are_told_apart_with_their_values():
    parsed = read("--num_machines 2 --seed 1 --multi_gpu --main-process-ip=$(HEAD) --accelerate_config fsdp2 --packing")
    assert parsed.values == {"seed": "1", "packing": True}
    assert parsed.launcher == [
        (0, "--num_machines"),
        (4, "--multi_gpu"),
        (5, "--main-process-ip=$(HEAD)"),
        (6, "--accelerate_config"),
    ]
    assert parsed.launcher_tokens == {0, 1, 4, 5, 6, 7}
    assert parsed.launcher_values == {
        "num_machines": "2",
        "multi_gpu": True,
        "main_process_ip": "$(HEAD)",
        "accelerate_config": "fsdp2",
    }


def test_a_flag_that_both_have_is_the_scripts():
    parsed = read("--gradient_accumulation_steps 4")
    assert parsed.values == {"gradient_accumulation_steps": "4"}
    assert parsed.launcher == []


def test_an_unknown_flag_keeps_the_words_after_it():
    parsed = read("--no-such 1 2 --packing --nor_this=3")
    assert parsed.unknown == [(0, "--no-such"), (4, "--nor_this=3")]
    assert parsed.positionals == []
    assert parsed.values == {"packing": True}


def test_a_loose_word_is_a_positional():
    assert read("train.py --packing false stray --multi_gpu word -- --seed").positionals == [
        (0, "train.py"),
        (3, "stray"),
        (5, "word"),
        (6, "--"),
        (7, "--seed"),
    ]


def test_the_config_file_is_taken_away_wherever_it_stands():
    parsed = read("--no_such --reward_funcs a --config run.yaml b --nor_this --seed", "grpo")
    assert parsed.config_file == "run.yaml"
    assert parsed.values == {"reward_funcs": ["a", "b"]}
    assert parsed.unknown == [(0, "--no_such"), (6, "--nor_this")]
    assert parsed.faults == [Fault(7, "--seed", "needs a value after it")]


def test_a_second_config_file_and_one_with_an_equals_sign_are_unknown():
    parsed = read("--config=a.yaml --config b.yaml --config c.yaml")
    assert (parsed.config_file, parsed.unknown) == ("b.yaml", [(0, "--config=a.yaml"), (3, "--config")])


def test_what_kubernetes_expands_later_is_never_judged():
    parsed = read("--bf16 $(BF16) --learning_rate $(LR) --dtype=$(DTYPE) --num_machines $(N) --packing $(P)")
    assert parsed.values == {"bf16": "$(BF16)", "learning_rate": "$(LR)", "dtype": "$(DTYPE)", "packing": "$(P)"}
    assert parsed.launcher_values == {"num_machines": "$(N)"}
    assert (parsed.faults, parsed.opaque) == ([], [])


def test_what_kubernetes_may_turn_into_a_flag_is_opaque_and_not_unknown():
    parsed = read("$(EXTRA) --$(NAME)=1 --seed 1")
    assert parsed.opaque == [(0, "$(EXTRA)"), (1, "--$(NAME)=1")]
    assert (parsed.unknown, parsed.positionals) == ([], [])


@pytest.mark.parametrize(
    ("line", "index", "token", "reason"),
    [
        ("--bf16 --use_cpu", 0, "--bf16", "needs a value after it"),
        ("--packing --bf16 perhaps", 1, "--bf16", "has the value 'perhaps', which is neither true nor false"),
        ("--seed 1.5", 0, "--seed", "has the value '1.5', which is not a whole number"),
        ("--learning_rate=fast", 0, "--learning_rate=fast", "has the value 'fast', which is not a number"),
        ("--dtype fp4", 0, "--dtype", "has the value 'fp4', which is not one of auto, bfloat16, float16, float32"),
        ("--no_gradient_checkpointing=1", 0, "--no_gradient_checkpointing=1", "takes no value"),
        ("--learning_rate -1e-5", 0, "--learning_rate", "needs a value after it"),
        ("--seed 1 --config", 2, "--config", "needs a file after it"),
        ("--num_machines two", 0, "--num_machines", "has the value 'two', which is not a whole number"),
    ],
)
def test_what_argparse_refuses_is_a_fault_with_its_place(line, index, token, reason):
    assert (index, token, reason) in reasons(line)


def test_none_is_a_number_where_trl_takes_it_for_one():
    assert reasons("--max_length none --data_seed NULL") == []
    assert reasons("--seed none") == [(0, "--seed", "has the value 'none', which is not a whole number")]


def test_a_negative_number_is_a_value():
    assert read("--max_steps -1 --label_smoothing_factor -.5").values == {
        "max_steps": "-1",
        "label_smoothing_factor": "-.5",
    }


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="no training method 'env'"):
        flags.parse("env", [])


@given(st.lists(WORDS, max_size=10))
def test_every_token_told_stands_where_it_is_said_to_stand(args):
    parsed = flags.parse("grpo", args)
    told = [*parsed.unknown, *parsed.launcher, *parsed.positionals, *parsed.opaque]
    told += [(fault.index, fault.token) for fault in parsed.faults]
    assert all(args[index] == token for index, token in told)
    assert all(args[index].startswith("-") for index in parsed.places.values())


@given(st.lists(WORDS, max_size=10))
def test_without_the_launchers_tokens_the_script_is_told_the_same(args):
    first = flags.parse("grpo", args)
    kept = [token for index, token in enumerate(args) if index not in first.launcher_tokens]
    second = flags.parse("grpo", kept)
    if not (first.faults or first.positionals or first.opaque):
        assert (second.launcher, second.launcher_tokens) == ([], set())
        assert (second.values, second.config_file) == (first.values, first.config_file)
