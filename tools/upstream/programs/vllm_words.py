"""Words and variables that the installed vLLM takes, read from its sources: for print_vllm.py."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PARSERS = {
    "tool-call-parser": ("vllm/tool_parsers", "vllm/entrypoints/openai/tool_parsers"),
    "reasoning-parser": ("vllm/reasoning",),
}
QUANTIZATION = "vllm/model_executor/layers/quantization/__init__.py"
ENV = "vllm/envs.py"


def trees(folder: Path) -> Iterator[ast.Module]:
    """Every module of a folder."""
    for file in sorted(folder.glob("*.py")):
        yield ast.parse(file.read_text(encoding="utf-8"))


def parsers(folder: Path) -> Iterator[str]:
    """Names that a package registers: as keys of a table of modules, or by a decorator."""
    for node in (node for tree in trees(folder) for node in ast.walk(tree)):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id.endswith("_TO_REGISTER"):
                yield from (str(key.value) for key in node.value.keys if isinstance(key, ast.Constant))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register_module":
            words = [*node.args, *(each.value for each in node.keywords if each.arg == "name")]
            yield from (each for word in words for each in texts(word))


def texts(node: ast.AST) -> Iterator[str]:
    """The texts of a constant, or of a list of some."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def assigned(tree: ast.Module, name: str) -> Iterator[str]:
    """The texts of what a module assigns to a name."""
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id == name:
                yield from texts(node.value)


def words(root: Path) -> dict[str, set[str]]:
    """What one version knows, by the flag."""
    tree = ast.parse((root / QUANTIZATION).read_text(encoding="utf-8"))
    found = {name: {word for folder in folders for word in parsers(root / folder)} for name, folders in PARSERS.items()}
    found["quantization"] = {*assigned(tree, "QuantizationMethods"), *assigned(tree, "QUANTIZATION_METHODS")}
    return {**found, "deprecated": set(assigned(tree, "DEPRECATED_QUANTIZATION_METHODS"))}


def variables(root: Path) -> Iterator[tuple[str, str | list[str]]]:
    """Variables of `envs.py`: `int` or `float` where the text is converted to one, or the words that it may be."""
    for node in ast.walk(ast.parse((root / ENV).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and str(key.value).startswith("VLLM_"):
                    kind = variable(value)
                    if kind:
                        yield str(key.value), kind
        if isinstance(node, ast.FunctionDef) and node.name == "get_vllm_port":
            yield "VLLM_PORT", "int"


def variable(node: ast.expr) -> str | list[str] | None:
    """What a variable may be; None for any text, or where its own code decides."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "env_with_choices":
        exact = len(node.args) < 4 and not any(each.arg == "case_sensitive" for each in node.keywords)
        return sorted(texts(node.args[2])) if exact and isinstance(node.args[2], ast.List) else None
    body = node.body if isinstance(node, ast.Lambda) else None
    while isinstance(body, ast.Call) and isinstance(body.func, ast.Name) and body.func.id == "bool" and body.args:
        body = body.args[0]
    if not (isinstance(body, ast.Call) and isinstance(body.func, ast.Name) and body.func.id in ("int", "float")):
        return None
    inner = body.args[0] if body.args else None
    read = (
        isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in ("getenv", "get")
    )
    return body.func.id if read and len(body.args) == 1 else None
