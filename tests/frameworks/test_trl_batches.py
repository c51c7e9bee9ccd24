"""Numbers of GRPO and RLOO that have to fit the number of ranks; settings that a trainer refuses together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.frameworks.trl import batches, parsing

BASE = ("--model_name_or_path", "m", "--dataset_name", "d")


def found(method, *args, ranks=4):
    parsed = parsing.parse(method, (*BASE, *args))
    return [
        (each.severity.value, each.rule) for each in batches.check(method, parsed, lambda: ranks, lambda name: name)
    ]


def flags(**numbers):
    return [word for name, value in numbers.items() for word in (f"--{name}", str(value))]


SIZES = st.sampled_from([1, 2, 3, 4, 8])


@given(batch=SIZES, steps=SIZES, group=st.sampled_from([2, 3, 4, 8, 16]), ranks=st.integers(1, 16))
def test_a_generation_holds_whole_groups_of_answers(batch, steps, group, ranks):
    numbers = flags(per_device_train_batch_size=batch, gradient_accumulation_steps=steps, num_generations=group)
    wrong = batch * steps * ranks % group != 0
    assert found("grpo", *numbers, ranks=ranks) == [("error", "trl/generations")] * wrong


@given(batch=SIZES, every=SIZES, group=st.sampled_from([2, 3, 8]), ranks=st.integers(1, 8))
def test_steps_per_generation_take_the_place_of_the_accumulated_steps(batch, every, group, ranks):
    numbers = flags(per_device_train_batch_size=batch, steps_per_generation=every, num_generations=group)
    more = flags(gradient_accumulation_steps=7)
    wrong = batch * every * ranks % group != 0
    assert found("rloo", *numbers, *more, ranks=ranks) == [("error", "trl/generations")] * wrong


@given(batch=SIZES, whole=st.integers(1, 16).map(lambda n: 4 * n), group=st.sampled_from([2, 3, 8]), ranks=SIZES)
def test_a_size_of_the_whole_generation_holds_whole_steps_and_whole_groups(batch, whole, group, ranks):
    numbers = flags(per_device_train_batch_size=batch, generation_batch_size=whole, num_generations=group)
    wrong = whole % (batch * ranks) != 0 or whole % group != 0
    assert found("grpo", *numbers, ranks=ranks) == [("error", "trl/generations")] * wrong


def test_the_two_sizes_of_a_generation_exclude_each_other():
    both = flags(generation_batch_size=64, steps_per_generation=2)
    assert found("grpo", *both) == found("rloo", *both, ranks=None) == [("error", "trl/generations")]


def test_groups_of_answers_have_no_batch_that_is_searched_for():
    assert found("grpo", "--auto_find_batch_size") == [("error", "trl/contradiction")]
    assert found("grpo", *flags(auto_find_batch_size="false")) == []
    assert found("sft", "--auto_find_batch_size") == []


SILENT = {
    "the defaults": ("grpo", ()),
    "an unknown number of ranks": ("grpo", flags(per_device_train_batch_size=1, num_generations=8), None),
    "another method": ("sft", flags(per_device_train_batch_size=1)),
    "a file": ("grpo", ("--config", "c.yaml", *flags(per_device_train_batch_size=1))),
    "a number that only the pod knows": ("grpo", flags(per_device_train_batch_size="$(N)", num_generations=8)),
    "groups of two ranks": ("grpo", ("--use_vllm", *flags(vllm_mode="colocate", vllm_tensor_parallel_size=2))),
    "a size beside a server": ("grpo", ("--use_vllm", *flags(vllm_mode="server", vllm_tensor_parallel_size=3))),
    "a size without vLLM": ("grpo", flags(vllm_tensor_parallel_size=3)),
    "the best model by steps": ("sft", ("--load_best_model_at_end", *flags(eval_strategy="steps"))),
    "the best model of all": ("sft", ("--load_best_model_at_end", *flags(save_strategy="best"))),
    "four bit and adapters": ("sft", ("--load_in_4bit", "--use_peft")),
    "four bit and a file": ("sft", ("--load_in_4bit", "--config", "c.yaml")),
    "fsdp that is off": ("sft", flags(fsdp="false", deepspeed="ds.json")),
}


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_what_fits_or_is_not_known_is_silent(case):
    method, args, *ranks = case
    assert found(method, *args, ranks=ranks[0] if ranks else 4) == []


TOLD = {
    "a size that leaves a rank over": (
        "grpo",
        ("--use_vllm", *flags(vllm_tensor_parallel_size=3)),
        ("error", "trl/vllm-size"),
    ),
    "the best model without evaluation": ("sft", ("--load_best_model_at_end",), ("error", "trl/contradiction")),
    "fsdp and deepspeed": ("sft", flags(fsdp="full_shard", deepspeed="ds.json"), ("error", "trl/contradiction")),
    "four bit alone": ("dpo", ("--load_in_4bit",), ("note", "trl/contradiction")),
}


@pytest.mark.parametrize(("method", "args", "finding"), TOLD.values(), ids=TOLD)
def test_what_the_trainer_refuses_is_told(method, args, finding):
    assert found(method, *args) == [finding]


AT = {
    "a size that leaves a rank over": "vllm_tensor_parallel_size",
    "the best model without evaluation": "load_best_model_at_end",
    "fsdp and deepspeed": "deepspeed",
    "four bit alone": "load_in_4bit",
}


@pytest.mark.parametrize("case", TOLD)
def test_what_the_trainer_refuses_is_told_at_the_flag_that_is_to_be_changed(case):
    method, args, _ = TOLD[case]
    parsed = parsing.parse(method, (*BASE, *args))
    (finding,) = batches.check(method, parsed, lambda: 4, lambda name: f"args[{name}]")
    assert finding.field == f"args[{AT[case]}]"
    assert str(finding.value).split()[0] == f"--{AT[case]}"


def test_groups_have_two_answers_at_least():
    assert found("grpo", *flags(num_generations=1)) == [("error", "trl/generations")]


@given(batch=SIZES, group=st.sampled_from([2, 4, 8]), ranks=st.integers(1, 8), own=st.booleans())
def test_an_evaluation_holds_whole_groups_of_answers(batch, group, ranks, own):
    name = "num_generations_eval" if own else "num_generations"
    numbers = flags(per_device_eval_batch_size=batch, eval_strategy="steps", **{name: group})
    wrong = batch * ranks % group != 0
    assert found("grpo", *numbers, ranks=ranks) == [("error", "trl/generations")] * wrong


def test_a_training_that_does_not_evaluate_needs_no_batch_for_it():
    assert found("grpo", *flags(per_device_eval_batch_size=1)) == []


@pytest.mark.parametrize(("more", "count"), [((), 1), (flags(max_steps=10), 0), (("--config", "c.yaml"), 0)])
def test_a_dataset_without_a_length_needs_a_number_of_steps(more, count):
    assert found("sft", "--dataset_streaming", *more) == [("error", "trl/contradiction")] * count
