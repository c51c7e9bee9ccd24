"""Items behind the config of a recipe of torchtune that end the run, and those that do not."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks.torch import tune_overrides

FULL, OWN = "full_finetune_distributed", "/cfg/full.yaml"
PLAN = "tensor_parallel_plan._component_=x.y"
SMALL, LARGE = "llama3_2/1B_full", "llama3_3/70B_full"


def words(*items, recipe=FULL, config=SMALL, ranks=4):
    return [word for word, _ in tune_overrides.faults(recipe, config, items, ranks)]


REFUSED = {
    "a component is removed": (["~dataset"], {}),
    "a component of a file is removed": (["~model._component_"], {"config": OWN}),
    "an item that is not there": (["~seeed"], {}),
    "a type": (["dtype=fp16"], {"recipe": "lora_finetune_single_device", "config": OWN}),
    "steps": (["optimizer_in_bwd=True", "gradient_accumulation_steps=2"], {}),
    "clipping": (["optimizer_in_bwd=true", "clip_grad_norm=1.0"], {"config": OWN}),
    "offloading": (["enable_activation_offloading=True", "enable_activation_checkpointing=False"], {}),
    "offloading without a GPU": (["device=cpu", "enable_activation_offloading=True"], {}),
    "a size that does not divide": (["tensor_parallel_dim=3"], {"config": LARGE}),
    "a size without a plan": (["tensor_parallel_dim=2"], {}),
    "a size with a plan and the fused optimizer of the config": (["tensor_parallel_dim=2", PLAN], {}),
    "a size with a fused optimizer": (["tensor_parallel_dim=2", "optimizer.fused=True"], {"config": LARGE}),
    "a pack without a length": (["dataset.packed=True"], {}),
    "a collator": (["collate_fn=torchtune.data.left_pad_sequence"], {"config": OWN}),
}


@pytest.mark.parametrize(("items", "more"), REFUSED.values(), ids=REFUSED)
def test_an_item_that_the_recipe_refuses_is_told(items, more):
    assert len(words(*items, **more)) == 1
    assert words(*items, **more)[0] in items


SILENT = {
    "an item of a file is removed": (["~seeed", "~dataset"], {"config": OWN}),
    "an item is removed": (["~seed", "~clip_grad_norm"], {}),
    "bf16": (["dtype=bf16"], {}),
    "one step": (["optimizer_in_bwd=True", "gradient_accumulation_steps=1", "clip_grad_norm=None"], {}),
    "steps of LoRA": (
        ["optimizer_in_bwd=True", "gradient_accumulation_steps=2"],
        {"recipe": "lora_finetune_distributed"},
    ),
    "offloading with a file": (["enable_activation_offloading=True"], {"config": OWN}),
    "a size with a plan": (["tensor_parallel_dim=2", PLAN, "optimizer.fused=False"], {}),
    "a size without the fused optimizer": (["tensor_parallel_dim=2", PLAN, "~optimizer.fused"], {}),
    "a size of a config with a plan": (["tensor_parallel_dim=2"], {"config": LARGE}),
    "a size of unknown ranks": (["tensor_parallel_dim=3"], {"config": OWN, "ranks": None}),
    "a pack with a length": (["dataset.packed=True", "tokenizer.max_seq_len=2048"], {}),
    "a pack of a dataset of one's own": (["dataset=mine.data", "dataset.packed=True"], {}),
    "a pack with a file": (["dataset.packed=True"], {"config": OWN}),
    "another recipe": (["dtype=fp16"], {"recipe": "generate"}),
}


@pytest.mark.parametrize(("items", "more"), SILENT.values(), ids=SILENT)
def test_an_item_that_the_recipe_takes_is_not_spoken_of(items, more):
    assert words(*items, **more) == []
