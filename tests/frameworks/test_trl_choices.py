"""Words that TRL's parser takes and its trainers refuse, and lists that have to be as long as each other."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks.trl import arguments, choices, parsing


def rules(method, *args):
    given = arguments.Arguments(method, parsing.parse(method, args))
    return [each.rule for each in choices.check(given, lambda name: name)]


WORDS = {
    "a loss of DPO": ("dpo", "--loss_type", "simpo"),
    "one of two losses of DPO": ("dpo", "--loss_type", "sigmoid", "bco"),
    "a divergence": ("dpo", "--f_divergence_type", "kl"),
    "a loss of GRPO": ("grpo", "--loss_type", "dr-grpo"),
    "a level": ("grpo", "--importance_sampling_level", "tokens"),
    "an aggregation": ("grpo", "--multi_objective_aggregation", "sum"),
    "a scale of older versions": ("grpo", "--scale_rewards", "false"),
    "a mode": ("grpo", "--use_vllm", "--vllm_mode", "local"),
    "a mode of RLOO": ("rloo", "--use_vllm", "--vllm_mode", "Server"),
    "a reward": ("grpo", "--reward_funcs", "length"),
    "the second reward": ("rloo", "--reward_funcs", "accuracy_reward", "length"),
}


@pytest.mark.parametrize("args", WORDS.values(), ids=WORDS)
def test_a_word_that_trl_does_not_know_is_refused(args):
    assert rules(*args) == ["trl/word"]


CONTRADICTIONS = {
    "fewer weights than rewards": ("grpo", "--reward_funcs", "a.b", "c.d", "--reward_weights", "1.0"),
    "more weights than rewards": ("rloo", "--reward_funcs", "a.b", "--reward_weights", "1", "2"),
    "no weight for the reward model": (
        *("grpo", "--reward_funcs", "a.b", "--reward_model_name_or_path", "m", "--reward_weights", "1"),
    ),
    "weights of losses": ("dpo", "--loss_type", "sigmoid", "sft", "--loss_weights", "1"),
    "weights of the loss by default": ("dpo", "--loss_weights", "1", "0.5"),
    "a smoothing of none": ("dpo", "--loss_type", "exo_pair"),
    "weighting of a loss that sorts": ("dpo", "--loss_type", "aot", "--use_weighting"),
    "padding": ("sft", "--padding_free"),
    "padding with a length": ("sft", "--padding_free", "--max_length", "512", "--packing", "false"),
    "a batch of one for a KL term": ("kto", "--per_device_train_batch_size", "1"),
    "an order that breaks the KL term": ("kto", "--train_sampling_strategy", "random"),
    "completions of nobody": ("grpo", "--log_completions_hub_repo", "a/b"),
    "a correction that VESPO does not take": ("grpo", "--loss_type", "vespo", "--use_vllm"),
    "saves between evaluations": (
        *("sft", "--load_best_model_at_end", "--eval_strategy", "steps", "--eval_steps", "200", "--save_steps", "300"),
    ),
    "a reference that is not there": ("grpo", "--sync_ref_model"),
    "a reference that RLOO does not have": ("rloo", "--sync_ref_model", "--beta", "0.0"),
    "a reference of adapters": ("dpo", "--sync_ref_model", "--use_peft"),
    "a reference of adapters of GRPO": ("grpo", "--sync_ref_model", "--beta", "0.1", "--use_peft"),
    "a reference that was computed before": ("kto", "--sync_ref_model", "--precompute_ref_log_probs"),
}


@pytest.mark.parametrize("args", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_settings_that_a_trainer_refuses_together_are_refused(args):
    assert rules(*args) == ["trl/contradiction"]


SILENT = {
    "every loss of DPO": ("dpo", "--loss_type", "sigmoid", "apo_zero", "sft", "--loss_weights", "1", "1", "0.1"),
    "a smoothed loss": ("dpo", "--loss_type", "exo_pair", "--label_smoothing", "0.001"),
    "a loss of SFT, which the parser judges": ("sft", "--loss_type", "dft"),
    "a mode without vLLM": ("grpo", "--vllm_mode", "local"),
    "a mode that the pod knows": ("grpo", "--use_vllm", "--vllm_mode", "$(MODE)"),
    "a loss that the pod knows": ("grpo", "--loss_type", "$(LOSS)"),
    "a scale that nobody asks": (
        *("grpo", "--multi_objective_aggregation", "normalize_then_sum", "--scale_rewards", "false"),
    ),
    "rewards of a module": ("grpo", "--reward_funcs", "rewards.length", "a.b.c", "--reward_weights", "1", "2"),
    "a reward that the pod knows": ("grpo", "--reward_funcs", "$(REWARD)", "--reward_weights", "1", "2"),
    "weights of a reward and a model": (
        *("grpo", "--reward_funcs", "a.b", "--reward_model_name_or_path", "m", "--reward_weights", "1", "2"),
    ),
    "weights beside a file, which may hold a model": (
        *("grpo", "--config", "f.yaml", "--reward_funcs", "a.b", "--reward_weights", "1", "2"),
    ),
    "padding with packing": ("sft", "--padding_free", "--packing"),
    "padding beside a file, which may hold packing": ("sft", "--padding_free", "--config", "f.yaml"),
    "padding without a length": ("sft", "--padding_free", "--max_length", "none"),
    "a batch of one without a KL term": (
        *("kto", "--loss_type", "apo_zero_unpaired", "--per_device_train_batch_size", "1"),
    ),
    "completions that are logged": ("grpo", "--log_completions_hub_repo", "a/b", "--log_completions"),
    "a correction that VESPO takes": (
        *("grpo", "--loss_type", "vespo", "--use_vllm", "--vllm_importance_sampling_mode", "token_mask"),
    ),
    "VESPO without vLLM": ("grpo", "--loss_type", "vespo"),
    "saves at evaluations": (
        *("sft", "--load_best_model_at_end", "--eval_strategy", "steps", "--eval_steps", "200", "--save_steps", "400"),
    ),
    "evaluations of a share of the steps": (
        *("sft", "--load_best_model_at_end", "--eval_strategy", "steps", "--eval_steps", "0.1", "--save_steps", "0.3"),
    ),
    "a reference with a weight": ("grpo", "--sync_ref_model", "--beta", "0.04"),
    "a reference of the whole model": ("dpo", "--sync_ref_model"),
    "weighting of another loss": ("dpo", "--use_weighting"),
}


@pytest.mark.parametrize("args", SILENT.values(), ids=SILENT)
def test_what_trl_takes_or_nobody_knows_is_not_spoken_of(args):
    assert rules(*args) == []


def test_the_word_that_may_be_meant_is_named():
    given = arguments.Arguments("grpo", parsing.parse("grpo", ["--loss_type", "DR-GRPO"]))
    (finding,) = choices.check(given, lambda name: name)

    assert finding.message.endswith("; dr_grpo may be meant")
    assert (finding.field, finding.value) == ("loss_type", "--loss_type DR-GRPO")
