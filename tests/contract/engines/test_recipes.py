"""torchtune has what the strategy chooses: each recipe, each config, and what the configs are made of."""

import itertools
import json
import subprocess
from pathlib import Path

import pytest

from muster.strategies.trainer import recipes

PROBE = Path(__file__).parent / "programs" / "lacks.py"
KINDS = {"full": [], "lora": ["model.lora_attn_modules=[q_proj]"], "qlora": ["model.quantize_base=True"]}


def chosen():
    """Every recipe that a job which the strategy lets through can get."""
    for model, kind, processes in itertools.product(sorted(recipes.MODELS), KINDS, (1, 8)):
        args = KINDS["lora"] + KINDS[kind] if kind != "full" else []
        if model == recipes.LLAMA3_3_70B:
            impossible = processes == 1  # it has no config for one device
        else:
            impossible = kind == "qlora" and (model == recipes.QWEN2_5_1_5B or processes > 1)
        if impossible:
            continue
        yield recipes.choose(model, 1, processes, processes, args)
    yield recipes.choose(recipes.LLAMA3_3_70B, 2, 8, 8, [])


def lacking(python, pairs):
    """What torchtune lacks of these recipes and configs."""
    asked = json.dumps(pairs)
    done = subprocess.run([python, PROBE], input=asked, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_torchtune_has_every_recipe_and_config_that_the_strategy_chooses(python):
    assert lacking(python, [[each.name, each.config] for each in chosen()]) == []


@pytest.mark.parametrize(
    ("pair", "named"),
    [
        (["full_finetune", "llama3_2/1B_full"], "recipe full_finetune"),
        (["full_finetune_distributed", "llama3_2/1B_moved"], "config llama3_2/1B_moved of full_finetune_distributed"),
    ],
    ids=["recipe", "config"],
)
def test_what_moved_is_named(python, pair, named):
    assert lacking(python, [pair]) == [named]
