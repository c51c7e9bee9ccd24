"""Prints what the installed torchtune lacks, by name, of the recipes and configs on stdin: [[recipe, config], ...]."""

import importlib
import json
import sys
from pathlib import Path

import torchtune
from omegaconf import OmegaConf
from torchtune._recipe_registry import get_all_recipes

CONFIGS = Path(torchtune.__file__).parents[1] / "recipes" / "configs"


def components(node):
    """Yield what a config makes, by dotted path."""
    if isinstance(node, dict):
        if "_component_" in node:
            yield node["_component_"]
        for value in node.values():
            yield from components(value)


def lacks(path):
    module, _, name = path.rpartition(".")
    try:
        return not hasattr(importlib.import_module(module), name)
    except ImportError:
        return True


known = {recipe.name: {config.name: config.file_path for config in recipe.configs} for recipe in get_all_recipes()}
missing = set()
for recipe, config in json.load(sys.stdin):
    if recipe not in known:
        missing.add(f"recipe {recipe}")
    elif config not in known[recipe]:
        missing.add(f"config {config} of {recipe}")
    else:
        content = OmegaConf.to_container(OmegaConf.load(CONFIGS / known[recipe][config]), resolve=False)
        missing.update(f"{path}, which {config} names" for path in components(content) if lacks(path))
print(json.dumps(sorted(missing)))
