"""Rules of torchtune that are rows: each speaks of what it refuses and not of its twin; what is unknown is silent."""

from __future__ import annotations

import shlex
import tomllib

import pytest

from muster.strategies import upstream
from muster.strategies.frameworks.torch import tune_settings
from tests.support import row_problems

FULL, OWN = "full_finetune_distributed", "/cfg/full.yaml"
PLAN = "tensor_parallel_plan._component_=x.y"
SMALL, LARGE = "llama3_2/1B_full", "llama3_3/70B_full"
ROWS = tomllib.loads(upstream.text("torchtune", "rows.toml"))["row"]


def words(*items, recipe=FULL, config=SMALL, ranks=4):
    return [word for word, *_ in tune_settings.faults(recipe, config, items, ranks)]


def told(row, line):
    _, _, recipe, _, config, *items = shlex.split(line)
    found = tune_settings.faults(recipe, config, items, row.get("facts", {}).get("world", 1))
    return [message for _, message, _ in found if row["message"].rpartition("; ")[2] in message]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["refused"])
def test_a_row_is_well_formed_and_speaks_of_its_refused_line_alone(row):
    assert not list(row_problems.of_row(row))
    assert told(row, row["refused"])
    assert not told(row, row["taken"])


SILENT = {
    "an item of a file is removed": (["~seeed", "~dataset"], {"config": OWN}),
    "an item is removed": (["~seed", "~clip_grad_norm"], {}),
    "bf16": (["dtype=bf16"], {}),
    "one step": (["optimizer_in_bwd=True", "gradient_accumulation_steps=1", "clip_grad_norm=None"], {}),
    "steps of LoRA": (
        ["optimizer_in_bwd=True", "gradient_accumulation_steps=2"],
        {"recipe": "lora_finetune_distributed", "config": "llama3_2/1B_lora"},
    ),
    "offloading with a file": (["enable_activation_offloading=True"], {"config": OWN}),
    "a size with a plan": (["tensor_parallel_dim=2", PLAN, "optimizer.fused=False"], {}),
    "a size without the fused optimizer": (["tensor_parallel_dim=2", PLAN, "~optimizer.fused"], {}),
    "a size of a config with a plan": (["tensor_parallel_dim=2"], {"config": LARGE}),
    "a size of unknown ranks": (["tensor_parallel_dim=3"], {"config": OWN, "ranks": None}),
    "a pack with a length": (["dataset.packed=True", "tokenizer.max_seq_len=2048"], {}),
    "a pack of a dataset of one's own": (["dataset=mine.data", "dataset.packed=True"], {}),
    "a pack with a file": (["dataset.packed=True"], {"config": OWN}),
    "whole numbers": (["epochs=2", "batch_size=4", "max_steps_per_epoch=null", "seed=None"], {}),
    "another recipe": (["dtype=fp16"], {"recipe": "generate"}),
}


@pytest.mark.parametrize(("items", "more"), SILENT.values(), ids=SILENT)
def test_an_item_that_the_recipe_takes_is_not_spoken_of(items, more):
    assert words(*items, **more) == []


def unread(*items, recipe=FULL, config=SMALL):
    return dict(tune_settings.unread(recipe, config, items))


def test_an_item_that_no_recipe_reads_is_told_with_the_one_that_was_meant():
    assert "did you mean batch_size?" in unread("batch_siz=4")["batch_siz=4"]
    assert "write it below its part, such as optimizer.lr" in unread("lr=2e-5")["lr=2e-5"]
    assert list(unread("batch_siz=4", "lr=2e-5", config=OWN)) == ["batch_siz=4"]


def test_of_items_that_a_recipe_or_its_parts_may_read_nothing_is_said():
    assert not unread("batch_size=4", "optimizer.foreach=True", "model=torchtune.models.x.y", "~seed", "epochs")
    assert not unread("batch_siz=4", recipe="recipes.mine")
