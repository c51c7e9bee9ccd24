"""Prints the tables of the installed torchtune as JSON: run by a python that has torchtune, never imported.

Reads on stdin the items of configs whose values are wanted. `recipes`: whether each takes torchrun; `configs`: the
recipe of each, and its values of these items; `builders`: the functions of each package of models.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
from pathlib import Path
from typing import Any  # torchtune and omegaconf are only known at run time


def values(path: Path, asked: list[str]) -> dict[str, Any] | None:
    """What a config has of the items that are asked for; None where its file is not in the wheel."""
    if not path.exists():
        return None
    omegaconf: Any = importlib.import_module("omegaconf")
    content = omegaconf.OmegaConf.load(path)
    found = {item: omegaconf.OmegaConf.select(content, item, default=None) for item in asked}
    return {
        item: value for item, value in found.items() if value is not None and not omegaconf.OmegaConf.is_config(value)
    }


def exported(path: Path) -> list[str]:
    """Functions in `__all__` of a package, without importing it: some need what is not installed."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [name for name in ast.literal_eval(node.value) if name.islower()]
    return []


def main() -> None:
    """Print the tables."""
    asked = json.load(sys.stdin)
    package = Path(str(importlib.import_module("torchtune").__file__)).parent
    recipes: dict[str, bool] = {}
    configs: dict[str, dict[str, Any]] = {}
    for recipe in importlib.import_module("torchtune._recipe_registry").get_all_recipes():
        recipes[recipe.name] = recipe.supports_distributed
        for config in recipe.configs:
            items = values(package.parent / "recipes" / "configs" / config.file_path, asked)
            configs.setdefault(config.name, {"recipe": recipe.name, "items": items})
    builders = {path.parent.name: sorted(exported(path)) for path in sorted((package / "models").glob("*/__init__.py"))}
    sys.stdout.write(json.dumps({"recipes": recipes, "configs": configs, "builders": builders}))


if __name__ == "__main__":
    main()
