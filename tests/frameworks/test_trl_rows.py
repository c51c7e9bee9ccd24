"""Rules of TRL that are rows: each speaks of what it refuses and not of its twin; what fits or is unknown is silent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frameworks import trl_rows
from tests.support import row_problems


def rules(method, *args, **facts):
    return [each.rule for each in trl_rows.found(method, *args, **facts) if each.rule != "trl/required"]


def of_row(row, line):
    flags = row["flag"] if isinstance(row["flag"], list) else [row["flag"], *row.get("at", ())]
    found = trl_rows.of_line(line, row.get("facts", {}))
    return [each for each in found if each.rule == row["rule"] and each.field in flags]


@pytest.mark.parametrize("row", trl_rows.ROWS, ids=lambda row: f"{row['flag']} {row['refused']}")
def test_a_row_is_well_formed_and_speaks_of_its_refused_line_alone(row):
    assert not list(row_problems.of_row(row))
    assert of_row(row, row["refused"])
    assert not of_row(row, row["taken"])


def flags(**numbers):
    return [word for name, value in numbers.items() for word in (f"--{name}", str(value))]


SIZES = st.sampled_from([1, 2, 3, 4, 8])


@given(batch=SIZES, steps=SIZES, group=st.sampled_from([2, 3, 4, 8, 16]), ranks=st.integers(1, 16))
def test_a_generation_holds_whole_groups_of_answers(batch, steps, group, ranks):
    numbers = flags(per_device_train_batch_size=batch, gradient_accumulation_steps=steps, num_generations=group)
    assert rules("grpo", *numbers, world=ranks) == ["trl/generations"] * (batch * steps * ranks % group != 0)


@given(batch=SIZES, every=SIZES, group=st.sampled_from([2, 3, 8]), ranks=st.integers(1, 8))
def test_steps_per_generation_take_the_place_of_the_accumulated_steps(batch, every, group, ranks):
    numbers = flags(per_device_train_batch_size=batch, steps_per_generation=every, num_generations=group)
    more = flags(gradient_accumulation_steps=7)
    assert rules("rloo", *numbers, *more, world=ranks) == ["trl/generations"] * (batch * every * ranks % group != 0)


@given(batch=SIZES, whole=st.integers(1, 16).map(lambda n: 4 * n), group=st.sampled_from([2, 3, 8]), ranks=SIZES)
def test_a_size_of_the_whole_generation_holds_whole_steps_and_whole_groups(batch, whole, group, ranks):
    numbers = flags(per_device_train_batch_size=batch, generation_batch_size=whole, num_generations=group)
    wrong = whole % (batch * ranks) != 0 or whole % group != 0
    assert rules("grpo", *numbers, world=ranks) == ["trl/generations"] * wrong


@given(batch=SIZES, group=st.sampled_from([2, 4, 8]), ranks=st.integers(1, 8), own=st.booleans())
def test_an_evaluation_holds_whole_groups_of_answers(batch, group, ranks, own):
    name = "num_generations_eval" if own else "num_generations"
    numbers = flags(per_device_eval_batch_size=batch, eval_strategy="steps", **{name: group})
    numbers += flags(per_device_train_batch_size=8)
    assert rules("grpo", *numbers, world=ranks) == ["trl/generations"] * (batch * ranks % group != 0)


def config(text, *more):
    return ("sft", "--deepspeed", text, *more)


SILENT = {
    "an unknown number of ranks": ("grpo", *flags(per_device_train_batch_size=1, num_generations=8)),
    "a number that only the pod knows": ("grpo", *flags(per_device_train_batch_size="$(N)", num_generations=8)),
    "generations beside a file": ("grpo", "--config", "c.yaml", *flags(per_device_train_batch_size=1)),
    "another method": ("sft", *flags(per_device_train_batch_size=1)),
    "a size beside a server": (
        *("grpo", "--use_vllm", "--vllm_server_host=h", "--vllm_mode=server", "--vllm_tensor_parallel_size=3"),
    ),
    "four bit and a file": ("sft", "--load_in_4bit", "--config", "c.yaml"),
    "the best model of all": ("sft", "--load_best_model_at_end", *flags(save_strategy="best")),
    "a stream beside a file": ("sft", "--dataset_streaming", "--config", "c.yaml"),
    "a loss that the pod knows": ("grpo", "--loss_type", "$(LOSS)"),
    "a loss of SFT, which the parser judges": ("sft", "--loss_type", "dft"),
    "a mode without vLLM": ("grpo", "--vllm_mode", "local"),
    "a mode that the pod knows": ("grpo", "--use_vllm", "--vllm_mode", "$(MODE)"),
    "a scale that nobody asks": (
        *("grpo", "--multi_objective_aggregation", "normalize_then_sum", "--scale_rewards", "false"),
    ),
    "a reward that the pod knows": ("grpo", "--reward_funcs", "$(REWARD)", "--reward_weights", "1", "2"),
    "weights beside a file, which may hold a model": (
        *("grpo", "--config", "f.yaml", "--reward_funcs", "a.b", "--reward_weights", "1", "2"),
    ),
    "padding beside a file, which may hold packing": ("sft", "--padding_free", "--config", "f.yaml"),
    "a batch of one without a KL term": (
        *("kto", "--loss_type", "apo_zero_unpaired", "--per_device_train_batch_size", "1"),
    ),
    "VESPO without vLLM": ("grpo", "--loss_type", "vespo"),
    "evaluations of a share of the steps": (
        *("sft", "--load_best_model_at_end", "--eval_strategy", "steps", "--eval_steps", "0.1", "--save_steps", "0.3"),
    ),
    "a strategy of FSDP that a file may allow": ("sft", "--fsdp=hybrid_shard", "--fsdp_config=fsdp.json"),
    "auto": config(
        '{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}'
    ),
    "the precision by default": config('{"bf16": {"enabled": true}, "fp16": {"enabled": false}}'),
    "a file of DeepSpeed": config("/cfg/zero3.json"),
    "another batch that is searched": config('{"train_micro_batch_size_per_gpu": 4}', "--auto_find_batch_size"),
    "a batch of DeepSpeed and of the pod": config(
        '{"train_micro_batch_size_per_gpu": 4}', "--per_device_train_batch_size=$(BATCH)"
    ),
    "settings in a file": config('{"train_batch_size": 64}', "--config", "a.yaml"),
    "the batch of all of an unknown number": config('{"train_batch_size": 64}'),
    "the head without adapters": ("sft", "--lora_target_modules", "lm_head", "--config", "f.yaml"),
    "flash attention": ("sft", "--attn_implementation=flash_attention_2"),
    "a kernel of the hub": ("sft", "--attn_implementation=kernels-community/flash-attn3"),
    "a file of accelerate": ("sft", "--accelerator_config", "accelerate.json"),
    "a value that is no number": ("sft", "--warmup_steps", "many"),
}


@pytest.mark.parametrize("args", SILENT.values(), ids=SILENT)
def test_what_fits_or_cannot_be_read_is_not_spoken_of(args):
    assert rules(*args, world=None, launched=True) == []


def test_the_word_that_may_be_meant_is_named():
    (finding,) = trl_rows.found("grpo", *trl_rows.NAMES, "--reward_funcs", "a.b", "--loss_type", "DR-GRPO")

    assert finding.message.endswith("; did you mean dr_grpo?")
    assert (finding.field, finding.value) == ("loss_type", "--loss_type DR-GRPO")
