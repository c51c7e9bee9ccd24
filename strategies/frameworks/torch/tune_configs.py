"""Configs of `tune run`: one that was written for recipes of another kind, and names that torchtune does not have.

A config of torchtune's is found whatever recipe it was written for, and the recipe ends where it lacks an item.
Source: torchtune 0.6.1 `torchtune/_cli/run.py` (`_get_config`), `recipes/*.py` (what each reads of its config, and
`strict=True` where weights are loaded), `recipes/configs`, `torchtune/config/_utils.py` (`_get_component_from_path`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from muster.strategies.documents.findings import beginning
from muster.strategies.launches.guesses import Guesses
from muster.strategies.trainer import recipes, registries

__all__ = ["faults", "unknown"]

Fault = tuple[str, str]
"""The word, and what is wrong with it."""
_KINDS = {
    **dict.fromkeys(("full_finetune_single_device", "full_finetune_distributed"), "full"),
    **dict.fromkeys(("full_dpo_distributed", "qat_distributed"), "full"),
    **dict.fromkeys(("lora_finetune_single_device", "lora_finetune_distributed"), "lora"),
    **dict.fromkeys(("lora_dpo_single_device", "lora_dpo_distributed", "qat_lora_finetune_distributed"), "lora"),
    **dict.fromkeys(("knowledge_distillation_single_device", "knowledge_distillation_distributed"), "kd"),
    "ppo_full_finetune_single_device": "ppo",
    **dict.fromkeys(("generate", "dev/generate_v2", "dev/generate_v2_distributed"), "no training"),
    **dict.fromkeys(("eleuther_eval", "quantize"), "no training"),
}
"""Recipes that read alike; those that are left out are not judged."""
_LACKS = {
    ("full", "lora"): ("model", "makes a model with LoRA, whose weights this recipe neither finds nor saves"),
    ("full", "kd"): ("model", "makes a model with LoRA, whose weights this recipe neither finds nor saves"),
    ("lora", "full"): ("model", "has no settings of LoRA (model.lora_rank)"),
    **dict.fromkeys((("kd", "full"), ("kd", "lora")), ("teacher_model", "has no teacher_model")),
    **dict.fromkeys((("full", "ppo"), ("lora", "ppo"), ("kd", "ppo")), ("model", "has no model, but those of PPO")),
    **dict.fromkeys(
        (("ppo", "full"), ("ppo", "lora"), ("ppo", "kd")), ("policy_model", "has no policy_model and no value_model")
    ),
    **dict.fromkeys(
        ((kind, "no training") for kind in ("full", "lora", "kd", "ppo")), ("optimizer", "is not one of a training")
    ),
}
"""By the kinds of a recipe and of a config: the item that would mend it, and what the config has or lacks."""
_PATH = re.compile(r"[A-Za-z0-9_]+/[A-Za-z0-9_.]+")
_BUILDER = re.compile(r"torchtune\.models\.([a-z0-9_]+)\.([a-z][a-z0-9_]*)")
_LONGEST = 100
_NAMES = Guesses(registries.CONFIGS, 0.8)


def faults(recipe: str, config: str, words: Sequence[str]) -> Iterator[Fault]:
    """Yield the config where its recipe ends for what it lacks.

    Args:
        recipe: name of a recipe.
        config: its config, a name or a file.
        words: all words behind the recipe but the config, none of which has a variable.
    """
    written = registries.CONFIGS.get(config, "")
    item, lacks = _LACKS.get((_KINDS.get(recipe, ""), _KINDS.get(written, "")), ("", ""))
    if item and not any(word.startswith(item) for word in words):
        yield config, f"was written for {written}: it {lacks}, and {recipe} ends with an error; use one for that recipe"


def unknown(config: str, words: Sequence[str]) -> Iterator[Fault]:
    """Yield a config, and builders of models, that torchtune does not have; another installation may have them.

    Args:
        config: a name or a file.
        words: all words behind the recipe but the config.
    """
    family = config.partition("/")[0]
    is_named = len(config) <= _LONGEST and _PATH.fullmatch(config) and not config.endswith((".yaml", ".yml"))
    if is_named and family in registries.BUILDERS and config not in registries.CONFIGS:
        near = _NAMES.closest(config)
        hint = f"did you mean {near}?" if near else "tune ls has the names"
        yield config, f"is not a config of torchtune 0.6.1, which would open a file of this name; {hint}"
    for key, value in recipes.items(words):
        found = _BUILDER.fullmatch(value) if len(value) <= _LONGEST else None
        if found and found[2] not in registries.BUILDERS.get(found[1], ()):
            message = f"{beginning(found[1], 40)}.{beginning(found[2], 40)} is not in torchtune.models of 0.6.1"
            yield f"{key}={value}", f"{message}, and the recipe ends with an error; correct it"
