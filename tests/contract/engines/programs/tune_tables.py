"""Writes the tables of strategies/upstream/torchtune: run by a python that has torchtune, never imported.

    $MUSTER_TRL_PYTHON tune_tables.py FOLDER ITEM ...

`recipes`: whether each takes torchrun; `configs`: the recipe of each, and its values of the items that rows ask for;
`builders`: the functions of each package of models.
"""

import ast
import json
import sys
from pathlib import Path

import torchtune
from omegaconf import OmegaConf
from torchtune._recipe_registry import get_all_recipes

CONFIGS = Path(torchtune.__file__).parents[1] / "recipes" / "configs"
MODELS = Path(torchtune.__file__).parent / "models"


def values(path, asked):
    """Return what a config has of the items that are asked for; None where its file is not in the wheel."""
    if not (CONFIGS / path).exists():
        return None
    content = OmegaConf.load(CONFIGS / path)
    found = {}
    for item in asked:
        value = OmegaConf.select(content, item, default=None)
        if value is not None and not OmegaConf.is_config(value):
            found[item] = value
    return found


def exported(path):
    """Return `__all__` of a package without importing it: some need what is not installed."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return []


def main():
    """Write all three tables, one entry of each on a line."""
    recipes, configs = {}, {}
    for recipe in get_all_recipes():
        recipes[recipe.name] = recipe.supports_distributed
        for config in recipe.configs:
            configs.setdefault(config.name, {"recipe": recipe.name, "items": values(config.file_path, sys.argv[2:])})
    packages = sorted(MODELS.glob("*/__init__.py"))
    builders = {path.parent.name: sorted(name for name in exported(path) if name[0].islower()) for path in packages}
    for name, table in (("recipes", recipes), ("configs", configs), ("builders", builders)):
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
        Path(sys.argv[1], f"{name}.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
