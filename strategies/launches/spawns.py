"""Spawns: how many processes the text of a Python program says that it starts itself.

Lightning's Trainer and Fabric start one process for each of their devices, unless torchrun has (lightning 2.6
`pytorch/trainer/connectors/accelerator_connector.py`, `fabric/plugins/environments`); `notebook_launcher` (accelerate
1.15 `launchers.py`) and `torch.multiprocessing.spawn` start as many as they are told. Only what stands there as a
number, a constant or a variable of the environment is read; anything else is `$`, which is no number.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from muster.strategies.launches.launches import Launch, Launcher

__all__ = ["UNSEEN", "call", "find", "read"]

UNSEEN = "$"
_LONGEST = 32_768  # characters of a program
_CLOSE = 512  # characters of a line, and brackets of a program
_HINT = r"\b(?:Trainer|Fabric|notebook_launcher|spawn)\b"


class _Kind(NamedTuple):
    """What a call starts: its arguments in the order in which they may stand, and the defaults of those that count."""

    positions: tuple[str, ...]
    defaults: Mapping[str, str]


_OF_LIGHTNING = _Kind((), {"devices": "auto", "num_nodes": "1", "accelerator": "auto"})
_KINDS = {
    **dict.fromkeys(
        (
            *("lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer"),
            *("lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric"),
        ),
        _OF_LIGHTNING,
    ),
    **dict.fromkeys(
        ("accelerate.notebook_launcher", "accelerate.launchers.notebook_launcher"),
        _Kind(("function", "args", "num_processes"), {"num_processes": UNSEEN, "num_nodes": "1"}),
    ),
    **dict.fromkeys(
        ("torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn"),
        _Kind(("fn", "args", "nprocs"), {"nprocs": "1"}),
    ),
}
_STRATEGIES = frozenset({"DDPStrategy", "FSDPStrategy", "DeepSpeedStrategy", "ModelParallelStrategy"})
_CONVERSIONS = frozenset({"int", "str"})


def find(launch: Launch, text: str | None) -> Mapping[str, str]:
    """Return what `read` finds in the program of a launch of Python; {} where its text is not known."""
    if launch.launcher is not Launcher.PYTHON or launch.module:
        return {}
    if launch.target.startswith("-") and launch.target != "-":
        text = launch.target.partition("c")[2] or (launch.rest[0] if launch.rest else "")
    return read(text) if text else {}


def call(values: Mapping[str, str]) -> str:
    """Return a starter as it could be written: `Trainer(devices=4, num_nodes=2)`."""
    named = (f"{name}={value}" for name, value in values.items() if name not in ("starter", "accelerator"))
    return f"{values.get('starter')}({', '.join(each for each in named if UNSEEN not in each)})"


def read(text: str) -> Mapping[str, str]:
    """Return the name of the only starter of a program, as `starter`, and its arguments; {} where none is seen."""
    if len(text) > _LONGEST or not re.search(_HINT, text):
        return {}
    return _read(text)


@functools.lru_cache(maxsize=32)
def _read(text: str) -> Mapping[str, str]:
    if text.count("(") + text.count("[") + text.count("{") > 4 * _CLOSE or max(map(len, text.split("\n"))) > _CLOSE:
        return {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    nodes = list(ast.walk(tree))
    imported, constants = dict(_imported(nodes)), _constants(nodes)
    calls = [(name, each) for each in nodes if isinstance(each, ast.Call) if (name := _name(each.func, imported))]
    found = [(name, _arguments(each, _KINDS[name], constants)) for name, each in calls if name in _KINDS]
    if not found or len({name for name, _ in found}) > 1 or any(values is None for _, values in found):
        return {}
    every = [values for _, values in found if values is not None]
    agreed = {name: value if all(each[name] == value for each in every) else UNSEEN for name, value in every[0].items()}
    return {"starter": found[0][0].rpartition(".")[2], **agreed}


def _imported(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield the names that a program imports, with what they stand for."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    (alias.name if alias.asname else alias.name.partition(".")[0]),
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _constants(nodes: list[ast.AST]) -> Mapping[str, ast.expr]:
    """Return the names that get a value once, and nowhere else."""
    stored = Counter(each.id for each in nodes if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load))
    stored.update(each.arg for each in nodes if isinstance(each, ast.arg))
    found = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return {name: value for name, value in found.items() if stored[name] == 1}


def _name(node: ast.expr, imported: Mapping[str, str]) -> str:
    """Return what a function is called in its package, "" where that is not seen."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in imported:
        return ""
    return ".".join((imported[node.id], *reversed(parts)))


def _arguments(node: ast.Call, kind: _Kind, constants: Mapping[str, ast.expr]) -> Mapping[str, str] | None:
    """Return the arguments that count; None where others decide how the processes start."""
    given = {each.arg: each.value for each in node.keywords}
    given.update(zip(kind.positions, node.args, strict=False))
    strategy = given.get("strategy")
    if "plugins" in given or not (strategy is None or _is_known(strategy)):
        return None
    hidden = None in given or any(isinstance(each, ast.Starred) for each in node.args)
    values = {name: UNSEEN if hidden else default for name, default in kind.defaults.items()}
    for name in kind.defaults:
        if name in given:
            values[name] = _text(given[name], constants) or kind.defaults[name]
    return values


def _is_known(strategy: ast.expr) -> bool:
    if isinstance(strategy, ast.Call):
        named = strategy.func
        return (named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")) in _STRATEGIES
    return isinstance(strategy, ast.Constant) and isinstance(strategy.value, str)


def _text(node: ast.expr, constants: Mapping[str, ast.expr], depth: int = 0) -> str:
    """Return an argument as text: `4`, `auto`, `$(NAME)` for a variable; "" for None, `$` for what is not seen."""
    if isinstance(node, ast.Name) and node.id in constants and depth < 4:
        return _text(constants[node.id], constants, depth + 1)
    if isinstance(node, ast.Constant):
        return _of_constant(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return "auto" if node.operand.value == 1 else UNSEEN
    if isinstance(node, ast.List | ast.Tuple):
        return UNSEEN if any(isinstance(each, ast.Starred) for each in node.elts) else str(len(node.elts))
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("os.environ", "environ"):
        name = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return f"$({name})" if isinstance(name, str) and name.isidentifier() else UNSEEN
    return _of_call(node, constants, depth) if isinstance(node, ast.Call) else UNSEEN


def _of_constant(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str | None):
        return UNSEEN
    text = "" if value is None else str(value).strip()
    if "," in text:
        return str(len([each for each in text.split(",") if each.strip()]))
    return "auto" if text == "-1" else text


def _of_call(node: ast.Call, constants: Mapping[str, ast.expr], depth: int) -> str:
    name = ast.unparse(node.func)
    if name in _CONVERSIONS and len(node.args) == 1 and depth < 4:
        return _text(node.args[0], constants, depth + 1)
    if name in ("torch.cuda.device_count", "cuda.device_count"):
        return "auto"
    if name in ("os.environ.get", "os.getenv", "environ.get", "getenv") and node.args:
        words = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
        default = str(words[1]) if len(words) > 1 and words[1] is not None else ""
        if isinstance(words[0], str) and words[0].isidentifier() and (len(words) == 1 or default.isdecimal()):
            return f"${{{words[0]}:-{default}}}" if default else f"$({words[0]})"
    return UNSEEN
