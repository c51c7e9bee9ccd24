"""Recipes and configs of torchtune, chosen as Trainer's torch plugin chooses them.

Source: trainer `pkg/runtime/framework/plugins/torch/torchtune.go` (getRecipeAndConfig, validateTorchTune);
`tests/golden/torchtune` compares with what that code answers. The model is part of the runtime's name:
`torchtune-llama3.2-1b` is `llama3_2/1B`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from msgspec import Struct

from muster.strategies import upstream

__all__ = [
    "IMMUTABLE",
    "LLAMA3_3_70B",
    "MODELS",
    "QWEN2_5_1_5B",
    "RECIPES",
    "Recipe",
    "choose",
    "fitting",
    "items",
    "model_of",
    "uses_lora",
    "uses_qlora",
]

LLAMA3_3_70B = "llama3_3/70B"
"""The one model that Trainer allows on several nodes."""
QWEN2_5_1_5B = "qwen2_5/1.5B"
"""The one model for which torchtune has no QLoRA config."""
MODELS = frozenset({"llama3_2/1B", "llama3_2/3B", LLAMA3_3_70B, QWEN2_5_1_5B})
IMMUTABLE = frozenset({"output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"})
"""Config items that the runtime sets and a job may not."""

RECIPES = cast("Mapping[str, bool]", upstream.data("torchtune", "recipes"))
"""The recipes of torchtune and whether each takes torchrun (`_recipe_registry.py`, `supports_distributed`)."""

Tunes = Literal["values", "names", "nothing"]
_FULL, _LORA, _QLORA = "full", "lora", "qlora"


class Recipe(Struct, frozen=True):
    """A recipe of `tune ls` and the config that goes with it."""

    name: str
    config: str

    @property
    def single_device(self) -> bool:
        """Whether it runs one process only."""
        return self.name.endswith("_single_device")


def model_of(runtime_name: str) -> str:
    """Return the model that a runtime's name states, "" when it lacks the form `torchtune-<family>-<size>`."""
    parts = runtime_name.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def choose(  # noqa: PLR0913 - what Trainer's own function reads
    model: str, nodes: int, processes: int | None, gpus: int, args: Sequence[str], tunes: Tunes = "values"
) -> Recipe:
    """Choose recipe and config.

    Args:
        model: as `model_of` spells it.
        nodes: number of pods.
        processes: per node, None for `auto`.
        gpus: number of GPUs, as Trainer counts them.
        args: arguments of the TrainJob, `key=value`.
        tunes: how the version of Trainer reads them.
    """
    qlora = uses_qlora(args) if tunes == "values" else _names_qlora(args)
    kind = _FULL if tunes == "nothing" else _QLORA if qlora else _LORA if uses_lora(args) else _FULL
    gpus = 0 if tunes == "nothing" else gpus
    if nodes > 1:
        return Recipe("full_finetune_distributed", f"{model}_full_multinode")
    family = "full" if kind == _FULL else "lora"
    if processes == 1 or gpus == 1:
        return Recipe(f"{family}_finetune_single_device", f"{model}_{kind}_single_device")
    return Recipe(f"{family}_finetune_distributed", f"{model}_{kind}")


def fitting(config: str) -> str:
    """Return the recipe for a config of torchtune's, by the end of its name; "" for any other config."""
    single = config.endswith("_single_device")
    kind = config.removesuffix("_single_device").removesuffix("_multinode").rpartition("_")[2]
    family = {_FULL: "full", _LORA: "lora", _QLORA: "lora"}.get(kind, "")
    return f"{family}_finetune_{'single_device' if single else 'distributed'}" if family else ""


def uses_lora(args: Sequence[str]) -> bool:
    """Whether any argument configures LoRA's attention modules."""
    return any("model.lora_attn_modules" in arg for arg in args)


def uses_qlora(args: Sequence[str]) -> bool:
    """Whether the base is quantised and DoRA is off."""
    return _enabled(args, "model.quantize_base") and not _enabled(args, "model.use_dora")


def _names_qlora(args: Sequence[str]) -> bool:
    """Whether the base is named and DoRA is not, whatever their values are, as older Trainers read them."""
    text = "\n".join(args)
    return "model.quantize_base" in text and "model.use_dora" not in text


def _enabled(args: Sequence[str], item: str) -> bool:
    return any(item in key and value.strip().lower() == "true" for key, value in items(args))


def items(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield key and value of each argument of the form `key=value`."""
    for arg in args:
        key, equals, value = arg.partition("=")
        if equals:
            yield key, value
