"""Sharding: what the settings of FSDP and DeepSpeed, and the trainer's own flags beside them, exclude.

A configuration of DeepSpeed or FSDP may be JSON on the command line, where it begins with `{`; a file is not seen.
Sources: transformers 5.23 `training_args.py` (`_VALID_DICT_FIELDS`), `trainer.py` (post accelerator creation setup),
`integrations/deepspeed.py` (`trainer_config_process`, whose mismatches stop the training at its start).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster.strategies.documents.findings import Finding, beginning, error
from muster.strategies.frameworks.trl.arguments import Arguments

__all__ = ["check"]

_Field = Callable[[str], str]
_Fault = tuple[str, str]
"""The flag, and what is wrong with it."""
_WITH_JSON = (
    *("deepspeed", "fsdp_config", "accelerator_config", "activation_checkpointing_kwargs"),
    *("gradient_checkpointing_kwargs", "lr_scheduler_kwargs", "model_init_kwargs"),
)
_JUDGED = frozenset({*_WITH_JSON, "fsdp", "save_only_model"})
_MATCHED = (
    ("train_micro_batch_size_per_gpu", "per_device_train_batch_size"),
    ("gradient_accumulation_steps", "gradient_accumulation_steps"),
    ("gradient_clipping", "max_grad_norm"),
    ("optimizer.params.lr", "learning_rate"),
    ("scheduler.params.warmup_max_lr", "learning_rate"),
    ("optimizer.params.eps", "adam_epsilon"),
    ("optimizer.params.weight_decay", "weight_decay"),
)
"""Members of DeepSpeed's configuration, and the flag that has to have the same value."""
_HALVES = ("fp16", "bf16")
_BATCH = "train_micro_batch_size_per_gpu"
_SHOWN, _LONGEST = 40, 40
_STOPS = "and TRL stops at its start"
_WHOLE_MODEL = 3  # stage of ZeRO in which the weights are divided too


def check(given: Arguments, ranks: Callable[[], int | None], field: _Field) -> Iterator[Finding]:
    """Yield an error for each flag that is not JSON, or that its own settings or other flags exclude.

    Args:
        given: the arguments of one invocation, with their defaults.
        ranks: returns the number of processes of the training, None when it is not known.
        field: returns the field path of a flag.
    """
    if _JUDGED.isdisjoint(given.values):
        return
    read = {name: _read(text) for name in _WITH_JSON if (text := given.text(name) or "").startswith("{")}
    for name, settings in read.items():
        if settings is None:
            yield _refused(given, field, name, f"is not JSON, {_STOPS}; write members in double quotes")
    for name, message in _sharded(given, read):
        yield _refused(given, field, name, message)
    deepspeed = read.get("deepspeed")
    for message in _deepspeed(given, deepspeed, ranks) if deepspeed else ():
        yield _refused(given, field, "deepspeed", message)


def _refused(given: Arguments, field: _Field, name: str, message: str) -> Finding:
    shown = beginning(f"--{name} {given.values.get(name, '')}", _SHOWN)
    return error(field(name), shown, message, rule="trl/contradiction")


def _read(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _sharded(given: Arguments, read: Mapping[str, Mapping[str, Any] | None]) -> Iterator[_Fault]:
    fsdp = bool(given.text("fsdp"))
    kind = "fsdp" if fsdp else "deepspeed"
    if given.text("save_only_model") == given.text("load_best_model_at_end") == "True" and kind in given.values:
        message = f"goes with --load_best_model_at_end only without --{kind}, {_STOPS}; remove one of the two"
        yield "save_only_model", message
    checkpoints = given.text("activation_checkpointing") or given.text("gradient_checkpointing")
    kinds = read.get("gradient_checkpointing_kwargs") or {}
    if given.method == "sft" and kinds.get("selective") is True and checkpoints == "False":
        yield "gradient_checkpointing_kwargs", f"is selective without --gradient_checkpointing, {_STOPS}; add it"
    elif given.method == "sft" and kinds.get("selective") is True and kinds.get("use_reentrant") is True:
        yield "gradient_checkpointing_kwargs", f"is selective, which excludes use_reentrant, {_STOPS}; remove one"
    settings = read.get("fsdp_config") or {}
    yield from _strategy(given, settings)
    if fsdp and _is_true(settings.get("activation_checkpointing")) and checkpoints == "True":
        yield "fsdp_config", f"has activation_checkpointing, {_STOPS}; add --gradient_checkpointing false"


def _strategy(given: Arguments, settings: Mapping[str, Any]) -> Iterator[_Fault]:
    """Judge the words of --fsdp, of which version 2, the default, takes fewer (transformers `training_args.py`)."""
    seen = given.text("fsdp_config") == "" or settings
    for word in (given.text("fsdp") or "").lower().split() if "fsdp" in given.values else ():
        if word in _FIRST_ONLY:
            if seen and settings.get("version", 2) in (2, "2"):
                yield "fsdp", f"names {word}, which version 2 of FSDP does not have, {_STOPS}; use full_shard"
        elif word not in _STRATEGIES:
            yield "fsdp", f"names no strategy, {_STOPS}; use true, full_shard or shard_grad_op"


_STRATEGIES = frozenset({"full_shard", "shard_grad_op", "offload", "auto_wrap"} | {"true", "false", "1", "0"})
_FIRST_ONLY = frozenset({"no_shard", "hybrid_shard", "hybrid_shard_zero2"})


def _deepspeed(given: Arguments, settings: Mapping[str, Any], ranks: Callable[[], int | None]) -> Iterator[str]:
    finds = given.text("auto_find_batch_size")
    zero = settings.get("zero_optimization")
    if finds == "True" and isinstance(zero, dict) and zero.get("stage") == _WHOLE_MODEL:
        yield f"has ZeRO 3, which goes without --auto_find_batch_size, {_STOPS}; use stage 2, or remove that"
    for member, flag in _MATCHED:
        asked, own = _number(_at(settings, member)), _number(given.text(flag))
        if asked is not None and own is not None and asked != own and not (member == _BATCH and finds != "False"):
            yield f"says {member} {asked:g}, and --{flag} is {own:g}, {_STOPS}; write auto, or the same number"
    yield from _batch(given, settings, ranks) if finds == "False" else ()
    for half in _HALVES:
        asked = _at(settings, f"{half}.enabled")
        if isinstance(asked, bool) and _is_on(given, half) not in (None, asked):
            said, cure = ("on", "true") if asked else ("off", "false")
            yield f"switches {half} {said}, and the flags do not, {_STOPS}; write auto, or set --{half} {cure}"


def _batch(given: Arguments, settings: Mapping[str, Any], ranks: Callable[[], int | None]) -> Iterator[str]:
    asked = _number(settings.get("train_batch_size"))
    each, steps = given.number("per_device_train_batch_size"), given.number("gradient_accumulation_steps")
    count = ranks() if asked is not None and each and steps else None
    if asked is not None and each and steps and count and asked != each * steps * count:
        parts = f"{count} processes of {each} in {steps} steps are {each * steps * count}"
        yield f"says train_batch_size {asked:g}, and {parts}, {_STOPS}; write auto, or that number"


def _is_on(given: Arguments, half: str) -> bool | None:
    """Return whether the trainer computes in a half precision; None where it is not known (trl `base_config.py`)."""
    if given.text(f"{half}_full_eval") != "False":
        return None
    fp16, bf16 = given.text("fp16"), given.text("bf16")
    if half == "fp16":
        return fp16 == "True" if fp16 in ("True", "False") else None
    if bf16 == "" and fp16 in ("True", "False"):
        return fp16 == "False"
    return bf16 == "True" if bf16 in ("True", "False") else None


def _at(settings: Mapping[str, Any], path: str) -> Any:
    found: Any = settings
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _number(value: object) -> float | None:
    """Return a number, or the number that a text of moderate length is; None for `auto` and the like."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and (len(value) > _LONGEST or not value):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")
