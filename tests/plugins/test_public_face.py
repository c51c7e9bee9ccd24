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
    for room in ("strategies", "webhook", "certs", "kube", "muster")
    for file in sorted((ROOT / room).rglob("*.py"))
}
DOMAIN = [name for name in MODULES if name.startswith("strategies")]


@pytest.fixture(params=MODULES.values(), ids=MODULES)
def tree(request):
    return ast.parse(request.param.read_text())


def test_every_module_opens_with_what_it_is_for(tree):
    assert len((ast.get_docstring(tree) or "").split()) >= 5


def test_every_module_with_something_to_use_declares_its_names(tree):
    defined = [
        node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assigned = [ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)]
    assigned += [ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)]
    if any(not name.startswith("_") for name in defined):
        assert assigned.count("__all__") == 1


def test_the_face_of_the_domain_is_exactly_what_it_declares():
    shown = {
        name
        for name, value in vars(strategies).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert shown == set(strategies.__all__)
    assert strategies.__all__ == sorted(strategies.__all__)


@pytest.mark.parametrize("name", DOMAIN)
def test_what_a_module_declares_exists_and_is_documented(name):
    module = importlib.import_module(name)
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{name}.{public} has no docstring"


@pytest.mark.parametrize("name", DOMAIN)
def test_what_a_module_defines_is_declared_or_private(name):
    module = importlib.import_module(name)
    own = {
        public
        for public, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == name
    }
    assert {public for public in own if not public.startswith("_")} <= set(module.__all__)
