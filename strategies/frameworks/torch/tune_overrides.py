"""Overrides of `tune run`: items behind the config of a recipe that the recipe, or the reader of configs, refuses.

Where torchtune's own config is named, what it holds is known too. Source: torchtune 0.6.1 `torchtune/config/_utils.py`
(`_merge_yaml_and_cli_args`, `_remove_key_by_dotpath`), `recipes/full_finetune_distributed.py`,
`full_finetune_single_device.py`, `lora_finetune_*.py` (`__init__`, `_setup_data`), `torchtune/datasets/_sft.py` and its
like (`PackedDataset requires a max_seq_len`), and the configs of `recipes/configs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from muster.strategies.documents.findings import beginning
from muster.strategies.documents.quantities import whole

__all__ = ["faults"]

Fault = tuple[str, str]
"""The word, and what is wrong with it."""
_OWN = re.compile(r"[a-z0-9_]+/[A-Za-z0-9_.]+")
_COMPONENTS = frozenset(
    {"tokenizer", "checkpointer", "dataset", "optimizer", "loss", "metric_logger", "model", "profiler", "lr_scheduler"}
)
_ITEMS = _COMPONENTS | {
    *("output_dir", "resume_from_checkpoint", "seed", "shuffle", "batch_size", "gradient_accumulation_steps"),
    *("compile", "log_every_n_steps", "log_peak_memory_stats", "device", "dtype", "epochs"),
    "enable_activation_checkpointing",
    *("max_steps_per_epoch", "enable_activation_offloading", "clip_grad_norm", "save_adapter_weights_only", "fsdp"),
    *("optimizer_in_bwd", "low_cpu_ram", "custom_sharded_layers", "collate_fn", "fsdp_cpu_offload", "kd_ratio"),
    *("tensor_parallel_dim", "tensor_parallel_plan", "quantizer", "teacher_model", "teacher_checkpointer", "kd_loss"),
}
"""Items of all configs of training; those of PPO are left out, as is its recipe."""
_UNPACKED = ("llama3_2/", "qwen2_5/", "qwen2/", "phi3/", "phi4/", "code_llama2/")
"""Models whose configs give the tokenizer no max_seq_len."""
_PLANNED = "/70B_full"
"""The end of the configs that have a tensor_parallel_plan."""
_WITH_FUSED = ("_full", "_full_multinode")
"""The ends of the configs for several devices that have a fused optimizer, but for those that have a plan."""
_TUNES = ("full_finetune_", "lora_finetune_")
_TRUE, _FALSE, _NOTHING = ("true",), ("false",), ("", "none", "null", "~")
_STOPS = "and the recipe stops"


def faults(recipe: str, config: str, words: Sequence[str], ranks: int | None) -> Iterator[Fault]:
    """Yield the words behind a config that end the run.

    Args:
        recipe: name of a recipe of torchtune's.
        config: its config, a name or a file.
        words: all words behind the recipe but the config, none of which has a variable.
        ranks: number of processes, None when unknown.
    """
    if not recipe.startswith(_TUNES):
        return
    own = _OWN.fullmatch(config) is not None and not config.endswith((".yaml", ".yml"))
    yield from _removed([word for word in words if word.startswith("~")], own=own)
    items = {word.partition("=")[0]: word for word in words if "=" in word and not word.startswith("~")}
    values = {key: word.partition("=")[2].strip().lower() for key, word in items.items()}
    unplanned = own and not config.endswith(_PLANNED)
    fused = unplanned and config.endswith(_WITH_FUSED) and "~optimizer.fused" not in words
    parallel = _parallel(values, ranks, own=unplanned, fused=fused)
    for key, message in (*_settings(recipe, values), *parallel, *_data(values, config)):
        yield items[key], message


def _removed(words: Sequence[str], *, own: bool) -> Iterator[Fault]:
    for word in words:
        path = word[1:].partition("=")[0]
        top = path.partition(".")[0]
        if "_component_" in path or (own and path in _COMPONENTS):
            yield word, "names a component, which cannot be removed, and the run ends; override its items instead"
        elif own and top not in _ITEMS:
            yield word, f"{beginning(top, 40)} is not an item of torchtune's configs, and the run ends; correct it"


def _settings(recipe: str, values: Mapping[str, str]) -> Iterator[Fault]:
    for key in ("batch_size", "gradient_accumulation_steps"):
        count = values.get(key, "1")
        if whole(count) == 0 or (count.startswith("-") and count[1:].isdecimal()):
            yield key, f"must be at least 1, {_STOPS}; raise it"
    if values.get("dtype") == "fp16":
        yield "dtype", f"is a type that no recipe trains in, {_STOPS}; use bf16"
    if recipe.startswith(_TUNES[0]) and values.get("optimizer_in_bwd") in _TRUE:
        steps, clipped = whole(values.get("gradient_accumulation_steps", "")), values.get("clip_grad_norm")
        if steps is not None and steps > 1:
            yield "gradient_accumulation_steps", f"does not go with optimizer_in_bwd, {_STOPS}; set it to 1"
        if clipped is not None and clipped not in _NOTHING:
            yield "clip_grad_norm", f"does not go with optimizer_in_bwd, {_STOPS}; set it to None"
    if values.get("enable_activation_offloading") in _TRUE:
        if values.get("enable_activation_checkpointing") in _FALSE:
            message = f"needs enable_activation_checkpointing, {_STOPS}; set both to True"
            yield "enable_activation_offloading", message
        if values.get("device") == "cpu":
            yield "enable_activation_offloading", f"needs a GPU, and device is cpu, {_STOPS}; remove one"


def _parallel(values: Mapping[str, str], ranks: int | None, *, own: bool, fused: bool) -> Iterator[Fault]:
    """Judge tensor parallelism; `own` and `fused` say what the config lacks and has."""
    size = whole(values.get("tensor_parallel_dim", ""))
    if size is None or size <= 1:
        return
    planned = any(key.startswith("tensor_parallel_plan") for key in values)
    if ranks and ranks % size:
        yield "tensor_parallel_dim", f"does not divide the {ranks} processes, {_STOPS}; use one that does"
    elif own and not planned:
        message = f"needs a plan, which this config lacks, {_STOPS}; add tensor_parallel_plan._component_"
        yield "tensor_parallel_dim", message
    elif values.get("optimizer.fused", "true" if fused else "") in _TRUE:
        named = "optimizer.fused" in values
        cure = "set it to False" if named else "add optimizer.fused=False"
        reason = "does not go with tensor_parallel_dim" if named else "excludes the fused optimizer of this config"
        yield "optimizer.fused" if named else "tensor_parallel_dim", f"{reason}, {_STOPS}; {cure}"


def _data(values: Mapping[str, str], config: str) -> Iterator[Fault]:
    length = values.get("tokenizer.max_seq_len", "" if config.startswith(_UNPACKED) else "unknown")
    torchtunes = values.get("dataset", "torchtune.").startswith("torchtune.")
    if values.get("dataset.packed") in _TRUE and length in _NOTHING and torchtunes:
        yield "dataset.packed", f"needs the length of a pack, {_STOPS}; add tokenizer.max_seq_len"
    if "left_pad_sequence" in values.get("collate_fn", ""):
        yield "collate_fn", f"is for inference alone, {_STOPS}; use torchtune.data.padded_collate_sft"
