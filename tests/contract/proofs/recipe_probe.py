"""Whether torchtune refuses command lines of `tune run`: run by a python that has torchtune, never imported.

Reads [{"recipe", "config", "items", "proof"}] on stdin and prints for each how it was refused, or "". `reader`: its
reader of configs; `recipe`: the recipe is made of its config, on a CPU where the line says no device.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torchtune
from torchtune import config
from torchtune._recipe_registry import get_all_recipes

RECIPES = Path(torchtune.__file__).parents[1] / "recipes"
CONFIGS = {each.name: RECIPES / "configs" / each.file_path for recipe in get_all_recipes() for each in recipe.configs}


def made(recipe: str, cfg: Any) -> None:
    """Make the recipe's object, which reads its settings; nothing is loaded."""
    path = RECIPES / f"{recipe}.py"
    spec = importlib.util.spec_from_file_location(recipe, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (found,) = (each for name, each in vars(module).items() if "Recipe" in name and each.__module__ == recipe)
    found(cfg)


def refused(case: dict[str, Any]) -> str:
    """How one line is refused."""
    items = [*case["items"], *(() if any(each.startswith("device=") for each in case["items"]) else ("device=cpu",))]
    argv = [case["recipe"], "--config", str(CONFIGS[case["config"]]), *items]
    act = (lambda cfg: made(case["recipe"], cfg)) if case["proof"] == "recipe" else (lambda _: None)
    try:
        with mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(sys.stderr):
            config.parse(act)()
    except SystemExit as end:
        return f"exit {end.code}" if end.code else ""
    except Exception as error:  # noqa: BLE001 - how it fails is what is asked for
        return f"{type(error).__name__}: {error}"[:400]
    return ""


if __name__ == "__main__":
    json.dump([refused(case) for case in json.load(sys.stdin)], sys.stdout)
