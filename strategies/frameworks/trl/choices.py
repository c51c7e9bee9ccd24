"""Choices: words that TRL's parser takes for any text, and its trainers then refuse, and lists that have to be as long.

A training of a mistyped loss stops when its model is loaded, at its first step. Sources: trl 1.16.0
`trl/trainer/grpo_trainer.py`, `dpo_trainer.py`, `dpo_config.py`, `sft_trainer.py`, `kto_trainer.py`, `rloo_trainer.py`,
`trl/generation/vllm_generation.py`, `trl/scripts/grpo.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence

from muster.strategies.documents.findings import Finding, beginning, error
from muster.strategies.frameworks.trl.arguments import Arguments

__all__ = ["check"]

_Field = Callable[[str], str]
_WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "dpo": {
        "loss_type": (
            *("sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot"),
            *("aot_unpaired", "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"),
        ),
        "f_divergence_type": ("reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"),
    },
    "grpo": {
        "loss_type": ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"),
        "importance_sampling_level": ("token", "sequence"),
        "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    },
}
_SCALES = ("group", "batch", "none")
_OF_VLLM = ("server", "colocate")
_REWARDS = ("accuracy_reward", "reasoning_accuracy_reward", "think_format_reward", "get_soft_overlong_punishment")
_REWARDED = frozenset({"grpo", "rloo"})
_REFERRING = {
    **dict.fromkeys(("dpo", "kto"), ("precompute_ref_log_probs", "use_peft")),
    **dict.fromkeys(("grpo", "rloo"), ("use_peft",)),
}
"""What a reference model that follows the training excludes, by method."""
_SORTED = frozenset({"aot", "aot_unpaired"})
_NEAR, _LONGEST = 0.75, 64
_STOPS = "and TRL stops"


def check(given: Arguments, field: _Field) -> Iterator[Finding]:
    """Yield the findings about the words and lists of one invocation.

    Args:
        given: its arguments.
        field: returns the field path of a flag.
    """
    for name, allowed in _WORDS.get(given.method, {}).items():
        yield from _known(given, name, allowed, field)
    if given.method == "grpo" and given.text("multi_objective_aggregation") == "sum_then_normalize":
        yield from _known(given, "scale_rewards", _SCALES, field)
    if given.method in _REWARDED:
        if given.text("use_vllm") == "True":
            yield from _known(given, "vllm_mode", _OF_VLLM, field)
        yield from _rewards(given, field)
    for name, shown, message in (*_contradictions(given), *_best(given)):
        yield error(field(name), shown, message, rule="trl/contradiction")


def _known(given: Arguments, name: str, allowed: Sequence[str], field: _Field) -> Iterator[Finding]:
    """Report the words of a flag that TRL does not know; a default is always known."""
    for word in (given.words(name) or ()) if name in given.values else ():
        if word not in allowed:
            near = difflib.get_close_matches(word[:_LONGEST].lower(), allowed, 1, _NEAR)
            hint = f"; {near[0]} may be meant" if near else ""
            message = f"is not one of {', '.join(allowed)}, {_STOPS} at its first step or before{hint}"
            yield error(field(name), f"--{name} {beginning(word, _LONGEST)}", message, rule="trl/word")
            return


def _rewards(given: Arguments, field: _Field) -> Iterator[Finding]:
    named = given.words("reward_funcs")
    if named is None:
        return
    for word in named:
        if "." not in word and word not in _REWARDS:
            message = (
                f"is neither one of {', '.join(_REWARDS)} nor the path of a function in a module, such as "
                f"rewards.{beginning(word, _LONGEST)}, {_STOPS} at its start"
            )
            yield error(field("reward_funcs"), f"--reward_funcs {beginning(word, _LONGEST)}", message, rule="trl/word")
            break
    weights, model = given.words("reward_weights"), given.text("reward_model_name_or_path")
    count = len(named) + (1 if model else 0)
    if weights and model is not None and len(weights) != count:
        message = f"has {len(weights)} weights for {count} rewards, {_STOPS} at its start; write one for each"
        yield error(field("reward_weights"), "--reward_weights", message, rule="trl/contradiction")


def _contradictions(given: Arguments) -> Iterator[tuple[str, str, str]]:
    """Yield (flag, what is shown, message) of settings that one trainer refuses together."""
    if given.method == "sft":
        yield from _of_sft(given)
    elif given.method == "dpo":
        yield from _of_dpo(given)
    elif given.method in _REWARDED and _is_on(given, "sync_ref_model") and given.text("beta") in ("0.0", "0"):
        message = f"--beta is 0, so that there is no reference model to keep up, {_STOPS} at its start; set --beta"
        yield "sync_ref_model", "--sync_ref_model", message
    if given.method == "kto":
        yield from _of_kto(given)
    if given.method == "grpo":
        yield from _of_grpo(given)
    if given.method in _REFERRING and _is_on(given, "sync_ref_model"):
        for name in _REFERRING[given.method]:
            if _is_on(given, name):
                message = (
                    f"goes with no --{name}, which keeps the reference as it is, {_STOPS} at its start; remove one"
                )
                yield "sync_ref_model", "--sync_ref_model", message


def _best(given: Arguments) -> Iterator[tuple[str, str, str]]:
    """Compare the steps of saving and evaluating where the best model is kept (transformers `training_args.py`)."""
    by_steps = given.text("save_strategy") == given.text("eval_strategy") == "steps"
    saving, evaluating = given.number("save_steps"), given.number("eval_steps")
    if _is_on(given, "load_best_model_at_end") and by_steps and saving and evaluating and saving % evaluating:
        message = f"is not a multiple of --eval_steps {evaluating}, {_STOPS} at its start; change one of the two"
        yield "save_steps" if "save_steps" in given.values else "eval_steps", f"--save_steps {saving}", message


def _of_kto(given: Arguments) -> Iterator[tuple[str, str, str]]:
    if given.text("loss_type") != "kto":
        return
    if given.number("per_device_train_batch_size") == 1:
        message = f"leaves nothing to compare for the KL term of this loss, {_STOPS} at its start; use 2 or more"
        yield "per_device_train_batch_size", "--per_device_train_batch_size 1", message
    order = given.text("train_sampling_strategy")
    if order not in (None, "", "sequential"):
        message = f"breaks the pairs of the KL term of this loss, {_STOPS} at its start; use sequential"
        yield "train_sampling_strategy", f"--train_sampling_strategy {order}", message


def _of_grpo(given: Arguments) -> Iterator[tuple[str, str, str]]:
    if given.text("log_completions_hub_repo") and given.text("log_completions") == "False":
        message = f"has nothing to upload without --log_completions, {_STOPS} at its start; add it, or remove this"
        yield "log_completions_hub_repo", "--log_completions_hub_repo", message
    mode, corrects = (given.text(f"vllm_importance_sampling_{name}") for name in ("mode", "correction"))
    corrected = given.text("use_vllm") == "True" and corrects == "True"
    if given.text("loss_type") == "vespo" and corrected and mode not in (None, "token_truncate", "token_mask"):
        message = f"needs --vllm_importance_sampling_mode token_truncate or token_mask, {_STOPS} at its start; set it"
        yield "loss_type", "--loss_type vespo", message


def _of_sft(given: Arguments) -> Iterator[tuple[str, str, str]]:
    length = given.text("max_length")
    if _is_on(given, "padding_free") and given.text("packing") == "False" and length and length.lower() != "none":
        message = (
            f"without --packing, --max_length {length} would not be kept to, {_STOPS} at its start; add --packing, or "
            "--max_length none for examples that are short enough"
        )
        yield "padding_free", "--padding_free", message


def _of_dpo(given: Arguments) -> Iterator[tuple[str, str, str]]:
    losses, weights = given.words("loss_type"), given.words("loss_weights")
    if losses is None:
        return
    if weights and len(weights) != len(losses):
        message = f"has {len(weights)} weights for {len(losses)} losses, {_STOPS} at its start; write one for each"
        yield "loss_weights", "--loss_weights", message
    if "exo_pair" in losses and given.text("label_smoothing") in ("0.0", "0"):
        message = f"needs a --label_smoothing above 0, such as 0.001, {_STOPS} at its start; set it"
        yield "loss_type", "--loss_type exo_pair", message
    if _is_on(given, "use_weighting") and _SORTED & set(losses):
        message = f"goes with no loss that sorts (aot, aot_unpaired), {_STOPS} at its start; remove one"
        yield "use_weighting", "--use_weighting", message


def _is_on(given: Arguments, name: str) -> bool:
    return given.values.get(name) is True
