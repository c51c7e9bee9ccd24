"""Settings: one flag that a trainer refuses because of what another one says, whatever the number of ranks is.

Each is looked at only where its flag is written. Sources: transformers 5.23 `training_args.py` (`_validate_args`),
`trainer.py` (`_load_from_checkpoint`), `modeling_utils.py` (`_flash_attn_can_dispatch`); trl 1.16.0
`trl/trainer/kto_trainer.py` (calculate_KL), `grpo_config.py` (`__post_init__`), `sft_trainer.py` and its like (no
adapter on lm_head); peft 0.21 `tuners/lora/layer.py` (update_layer, ParamWrapper), `utils/constants.py` (all-linear);
transformers `integrations/integration_utils.py` (report_to), `trainer_pt_utils.py` (AcceleratorConfig).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from muster.strategies.documents.findings import Finding, beginning, error
from muster.strategies.frameworks.trl.arguments import Arguments
from muster.strategies.launches.guesses import Guesses

__all__ = ["check"]

_Field = Callable[[str], str]
_Fault = tuple[str, str]
"""The flag, and what is wrong with it."""
_EVALUATED = frozenset({"reduce_lr_on_plateau", "greedy"})
_STOPS = "and TRL stops at its start"


def check(given: Arguments, field: _Field) -> Iterator[Finding]:
    """Yield an error for each flag that the settings beside it do not allow.

    Args:
        given: the arguments of one invocation, with their defaults.
        field: returns the field path of a flag.
    """
    for name in given.values:
        judge = _JUDGES.get(name)
        message = judge(given) if judge is not None else ""
        if message:
            yield error(field(name), f"--{name} {_shown(given, name)}", message, rule="trl/contradiction")


def _shown(given: Arguments, name: str) -> str:
    words = given.values[name]
    return beginning(" ".join(map(str, words)) if isinstance(words, list) else str(words), _LONGEST)


def _prefetch(given: Arguments) -> str:
    if given.text("dataloader_num_workers") != "0" or given.number("dataloader_prefetch_factor") is None:
        return ""
    return f"needs a --dataloader_num_workers of 1 or more, {_STOPS}; add it, or remove this"


def _scheduler(given: Arguments) -> str:
    if given.text("lr_scheduler_type") not in _EVALUATED or given.text("eval_strategy") != "no":
        return ""
    return f"follows an evaluation, and there is none, {_STOPS}; add --eval_strategy, or choose another one"


def _logging(given: Arguments) -> str:
    count = _decimal(given, "logging_steps")
    if count is not None and count > 1 and not count.is_integer() and given.text("logging_strategy") == "steps":
        return f"is above 1 and no whole number of steps, {_STOPS}; use a whole one"
    if given.text("logging_steps") not in ("0", "0.0") or given.text("logging_strategy") != "steps":
        return ""
    return f"is not a number of steps, {_STOPS}; raise it, or add --logging_strategy no"


def _pairs(given: Arguments) -> str:
    if given.method != "kto" or given.number("per_device_train_batch_size") != 1 or given.text("loss_type") != "kto":
        return ""
    return f"leaves nothing to compare an answer with, as the loss does within each batch, {_STOPS}; raise it"


def _order(given: Arguments) -> str:
    if (
        given.method != "kto"
        or given.text("train_sampling_strategy") == "sequential"
        or given.text("loss_type") != "kto"
    ):
        return ""
    return f"changes what the loss compares an answer with, {_STOPS}; use sequential, or --loss_type apo_zero_unpaired"


def _completions(given: Arguments) -> str:
    if given.text("log_completions") != "False" or given.text("log_completions_hub_repo") in (None, "", "None"):
        return ""
    return f"needs --log_completions, {_STOPS}; add it, or remove this"


def _halves(given: Arguments) -> str:
    if given.text("bf16_full_eval") != "True" or given.text("fp16_full_eval") != "True":
        return ""
    return f"excludes --bf16_full_eval, {_STOPS}; remove one of the two"


def _persistent(given: Arguments) -> str:
    if given.text("dataloader_persistent_workers") != "True" or given.text("dataloader_num_workers") != "0":
        return ""
    return f"needs a --dataloader_num_workers of 1 or more, {_STOPS}; add it, or remove this"


def _amount(name: str) -> Callable[[Arguments], str]:
    """Return what judges a number that is 1 or more."""

    def judge(given: Arguments) -> str:
        count = given.number(name)
        return "" if count is None or count > 0 else f"must be 1 or more, {_STOPS}; raise it"

    return judge


def _emptying(given: Arguments) -> str:
    count = _decimal(given, "torch_empty_cache_steps")
    return "" if count is None or count > 0 else f"is not a number of steps, {_STOPS}; use 1 or more"


def _steps(name: str, strategy: str) -> Callable[[Arguments], str]:
    """Return what judges a number of steps, which is whole, or a part of all of them below 1."""

    def judge(given: Arguments) -> str:
        count = _decimal(given, name)
        if count is None or count <= 1 or count.is_integer() or given.text(strategy) != "steps":
            return ""
        return f"is above 1 and no whole number of steps, {_STOPS}; use a whole one, or a part of all steps below 1"

    return judge


def _warmup(given: Arguments) -> str:
    count = _decimal(given, "warmup_steps")
    return "" if count is None or count >= 0 else f"is below 0, {_STOPS}; use 0 or more"


def _resumed(given: Arguments) -> str:
    if (given.text("resume_from_checkpoint") or "").lower() not in ("true", "false"):
        return ""
    return f"is read as the path of a checkpoint, {_STOPS} where there is none; write the path, or remove it"


def _head(given: Arguments) -> str:
    named = given.words("lora_target_modules") or ()
    if given.text("use_peft") != "True":
        return ""
    if any(word.lower().replace("_", "-") == _ALL and word != _ALL for word in named):
        return f"is taken for the name of a module, which no model has, {_STOPS}; write {_ALL}"
    if given.method == "reward" or "lm_head" not in named:
        return ""
    return f"names lm_head, which takes no adapter, {_STOPS}; leave it out, or use all-linear"


def _rank(given: Arguments) -> str:
    rank = _decimal(given, "lora_r")
    if rank is None or rank > 0 or given.text("use_peft") != "True":
        return ""
    return f"is not a rank of an adapter, {_STOPS}; use 1 or more"


def _parameters(given: Arguments) -> str:
    dropout = _decimal(given, "lora_dropout")
    if not dropout or given.text("use_peft") != "True":
        return ""
    return f"takes no dropout, and --lora_dropout is {dropout:g}, {_STOPS}; set --lora_dropout 0"


def _attention(given: Arguments) -> str:
    name = given.text("attn_implementation") or ""
    if name not in _ATTENTIONS and "/" not in name and not name.startswith("paged|"):
        return f"is not an implementation of attention, {_STOPS}; use one of {', '.join(sorted(_ATTENTIONS - _UNSET))}"
    if not name.startswith("flash_attention"):
        return ""
    if given.text("use_cpu") == "True":
        return f"needs a GPU, and --use_cpu takes none, {_STOPS}; use sdpa"
    off = all(given.text(each) == "False" for each in ("bf16", "fp16", "load_in_4bit", "load_in_8bit"))
    if off and given.text("dtype") == "float32":
        return "computes in 16 bits alone, and all is float32, so that TRL stops at its first step; set --bf16 true"
    return ""


def _best(given: Arguments) -> str:
    if given.text("save_strategy") != "best" or given.text("metric_for_best_model") != "":
        return ""
    if given.text("load_best_model_at_end") != "False" or given.text("lr_scheduler_type") in _EVALUATED:
        return ""
    return f"needs --metric_for_best_model, {_STOPS}; add it, such as eval_loss"


def _task(given: Arguments) -> str:
    """Judge the task of an adapter: peft gives a model of text a method of generation that a reward model lacks."""
    if given.method != "reward" or given.text("use_peft") != "True" or given.text("lora_task_type") != "CAUSAL_LM":
        return ""
    return (
        f"makes adapters of a model that generates, which a reward model is not, {_STOPS}; add --lora_task_type SEQ_CLS"
    )


def _debugged(given: Arguments) -> str:
    if all(each in _DEBUG for word in given.words("debug") or () for each in word.split()):
        return ""
    return f"is not {' or '.join(_DEBUG)}, {_STOPS}; use one of them"


_DEBUG = ("underflow_overflow", "tpu_metrics_debug")


def _clipping(given: Arguments) -> str:
    low, high = (_decimal(given, f"vllm_importance_sampling_clip_{end}") for end in ("min", "max"))
    if low is None or high is None or low < high:
        return ""
    return f"must be below --vllm_importance_sampling_clip_max, which is {high:g}, {_STOPS}; lower it"


def _computed(given: Arguments) -> str:
    if given.text("precompute_ref_log_probs") != "True" or given.text("dataset_streaming") != "True":
        return ""
    return f"goes through the data beforehand, which --dataset_streaming does not allow, {_STOPS}; remove one"


def _divergence(given: Arguments) -> str:
    kind, losses = given.text("f_divergence_type"), given.words("loss_type")
    other = next((each for each in losses or () if each not in _DIVERGING), "")
    if given.method != "dpo" or kind in (None, "", "reverse_kl") or not other:
        return ""
    return f"does not go with --loss_type {other[:_LONGEST]}, {_STOPS}; use reverse_kl, or another loss"


def _reporting(given: Arguments) -> str:
    word = given.text("report_to")
    if word is None or word in _TRACKERS:
        return ""
    near = _NEAR_TRACKERS.closest(word[:_LONGEST])
    return f"is not a tracker of transformers, {_STOPS}; " + (f"did you mean {near}?" if near else "use none, or one")


def _accelerated(given: Arguments) -> str:
    text = given.text("accelerator_config") or ""
    try:
        held = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):  # a path, or said elsewhere
        return ""
    unknown = next((each for each in held or () if each not in _ACCELERATED), None)
    if unknown is None:
        return ""
    return f"has no member {beginning(unknown, _LONGEST)!r}, {_STOPS}; correct or remove it"


def _sampled(given: Arguments) -> str:
    value = _decimal(given, "temperature")
    if value is None or value > 0:
        return ""
    return f"must be above 0, since log probabilities are divided by it, {_STOPS} or learns nothing; raise it"


def _answers(given: Arguments) -> str:
    count = given.number("max_completion_length")
    if count is None or count > 0 or given.method not in _SAMPLING:
        return ""
    return f"leaves no token to generate, {_STOPS}; raise it"


def _share(given: Arguments) -> str:
    value = _decimal(given, "vllm_gpu_memory_utilization")
    if value is None or 0 < value <= 1 or given.text("use_vllm") != "True" or given.text("vllm_mode") != "colocate":
        return ""
    return f"is a part of the memory, above 0 and at most 1, {_STOPS}; correct it"


def _decimal(given: Arguments, name: str) -> float | None:
    """Return a number as it is written; None where it is none, or not known."""
    text = given.text(name) or ""
    try:
        return float(text) if len(text) <= _LONGEST else None
    except ValueError:
        return None


_LONGEST = 40
_ALL = "all-linear"
_UNSET = frozenset({"", "None"})
_ATTENTIONS = _UNSET | {
    "eager",
    "sdpa",
    "flex_attention",
    "flash_attention_2",
    "flash_attention_3",
    "flash_attention_4",
}
_INTEGRATIONS = frozenset(
    {"azure_ml", "clearml", "codecarbon", "comet_ml", "dagshub", "dvclive", "flyte", "kubeflow", "mlflow", "neptune"}
    | {"swanlab", "tensorboard", "trackio", "wandb"}
)
_TRACKERS = _INTEGRATIONS | _UNSET | {"none", "all"}
_NEAR_TRACKERS = Guesses(_INTEGRATIONS, 0.6)
_ACCELERATED = frozenset(
    {"split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "non_blocking"}
    | {"gradient_accumulation_kwargs", "use_configured_state"}
)
_SAMPLING = frozenset({"grpo", "rloo"})
_DIVERGING = frozenset({"sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop", "sft"})
_JUDGES: dict[str, Callable[[Arguments], str]] = {
    "dataloader_prefetch_factor": _prefetch,
    "lr_scheduler_type": _scheduler,
    "logging_steps": _logging,
    "per_device_train_batch_size": lambda given: _amount("per_device_train_batch_size")(given) or _pairs(given),
    "per_device_eval_batch_size": _amount("per_device_eval_batch_size"),
    "gradient_accumulation_steps": _amount("gradient_accumulation_steps"),
    "fp16_full_eval": _halves,
    "dataloader_persistent_workers": _persistent,
    "train_sampling_strategy": _order,
    "log_completions_hub_repo": _completions,
    "torch_empty_cache_steps": _emptying,
    "save_steps": _steps("save_steps", "save_strategy"),
    "eval_steps": _steps("eval_steps", "eval_strategy"),
    "warmup_steps": _warmup,
    "resume_from_checkpoint": _resumed,
    "lora_target_modules": _head,
    "lora_r": _rank,
    "lora_target_parameters": _parameters,
    "attn_implementation": _attention,
    "save_strategy": _best,
    "use_peft": _task,
    "debug": _debugged,
    "vllm_importance_sampling_clip_min": _clipping,
    "precompute_ref_log_probs": _computed,
    "f_divergence_type": _divergence,
    "report_to": _reporting,
    "accelerator_config": _accelerated,
    "temperature": _sampled,
    "max_completion_length": _answers,
    "vllm_gpu_memory_utilization": _share,
}
