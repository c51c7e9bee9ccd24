"""What plugin authors may rely on: the names of `strategies`, and in every module those that it declares."""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from pathlib import Path

import pytest

from muster import strategies

ROOT = Path(__file__).parents[2]
MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for room in ("muster/strategies", "muster/webhook", "muster/audit", "muster/certs", "muster/kube", "muster")
    for file in sorted((ROOT / room).rglob("*.py"))
}
DOMAIN = [name for name in MODULES if name.startswith("muster.strategies")]


@pytest.fixture(scope="module")
def trees():
    return {name: ast.parse(file.read_text()) for name, file in MODULES.items()}


def test_every_module_opens_with_what_it_is_for(trees):
    assert not [name for name, tree in trees.items() if len((ast.get_docstring(tree) or "").split()) < 5]


def test_every_module_with_something_to_use_declares_its_names(trees):
    for name, tree in trees.items():
        defined = [
            node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        assigned = [ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)]
        assigned += [ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)]
        if any(not each.startswith("_") for each in defined):
            assert assigned.count("__all__") == 1, name


def test_the_face_of_the_domain_is_exactly_what_it_declares():
    shown = {
        name
        for name, value in vars(strategies).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert shown == set(strategies.__all__)
    assert strategies.__all__ == sorted(strategies.__all__)


def test_what_a_module_declares_exists_and_is_documented():
    for module in map(importlib.import_module, DOMAIN):
        for public in getattr(module, "__all__", ()):
            value = getattr(module, public)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert inspect.getdoc(value), f"{module.__name__}.{public} has no docstring"


def test_what_a_module_defines_is_declared_or_private():
    for module in map(importlib.import_module, DOMAIN):
        own = {
            public
            for public, value in vars(module).items()
            if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__
        }
        assert {public for public in own if not public.startswith("_")} <= set(getattr(module, "__all__", ())), (
            module.__name__
        )
