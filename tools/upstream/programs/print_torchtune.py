"""Prints the tables of the installed torchtune as JSON: run by a python that has torchtune, never imported.

Reads on stdin the items of configs whose values are wanted. `recipes`: whether each takes torchrun; `configs`: the
recipe of each, and its values of these items; `builders`: the functions of each package of models; `items`: the names
at the top of all configs, and those that code of torchtune and its recipes asks a config for.
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


def tops(packages: list[Path]) -> list[str]:
    """Names at the top of configs: of every config file, and `x` of each `cfg.x`, `cfg["x"]` and `cfg.get("x")`."""
    omegaconf: Any = importlib.import_module("omegaconf")
    files = [path for package in packages for path in package.rglob("*.yaml")]
    found = {str(name) for path in files for name in omegaconf.OmegaConf.load(path)}
    for path in (path for package in packages for path in package.rglob("*.py")):
        found.update(filter(None, map(_asked, ast.walk(ast.parse(path.read_text(encoding="utf-8"))))))
    return sorted(found)


def _asked(node: ast.AST) -> str:
    """The name that an expression asks a config for, "" where it asks for none."""
    if isinstance(node, ast.Attribute) and _is_config(node.value):
        return "" if node.attr == "get" else node.attr
    if isinstance(node, ast.Subscript) and _is_config(node.value):
        return _constant(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        return _constant(node.args[0]) if node.func.attr == "get" and _is_config(node.func.value) else ""
    return ""


def _is_config(node: ast.AST) -> bool:
    return getattr(node, "id", getattr(node, "attr", "")) in {"cfg", "_cfg", "config"}


def _constant(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


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
    items = {"names": tops([package, package.parent / "recipes"])}
    sys.stdout.write(json.dumps({"recipes": recipes, "configs": configs, "builders": builders, "items": items}))


if __name__ == "__main__":
    main()
