"""The regular expressions of the product: where each stands, and how it is used."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Expression", "expressions", "unread"]

ROOT = Path(__file__).parents[2]
_ROOMS = ("strategies", "webhook", "certs", "audit", "front", "kube")
_FUNCTIONS = ("compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")


@dataclass(frozen=True)
class Expression:
    """One regular expression.

    Attributes:
        place: its file, and its name or what is called.
        pattern, flags: as given to `re`.
        uses: methods that are called on it; `search` stands for what nobody can see.
    """

    place: str
    pattern: str | bytes
    flags: int
    uses: frozenset[str]

    def ways(self) -> Iterator[tuple[bool, bool]]:
        """Yield whether a match may begin anywhere and whether it must end at the end; what is tried often, may."""
        if not self.uses <= {"match", "fullmatch"}:
            yield True, False
        yield from ((False, use == "fullmatch") for use in sorted(self.uses & {"match", "fullmatch"}))


class _Reader(ast.NodeVisitor):
    """Reads one module."""

    def __init__(self, place, module):
        self.place, self._space = place, vars(module)
        self.found, self.unread = [], []
        self._target = ""

    @staticmethod
    def _is_one(target, node):
        return isinstance(target, ast.Name) and isinstance(node.value, ast.Call)

    def visit_Assign(self, node):  # the name that ast calls
        self._target = node.targets[0].id if self._is_one(node.targets[0], node) else ""
        self.generic_visit(node)
        self._target = ""

    def visit_AnnAssign(self, node):
        self._target = node.target.id if self._is_one(node.target, node) else ""
        self.generic_visit(node)
        self._target = ""

    def visit_Call(self, node):
        function = node.func
        if (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == "re"
            and function.attr in _FUNCTIONS
        ):
            self._note(function.attr, node)
        self.generic_visit(node)

    def _note(self, function, node):
        named = self._target if function == "compile" else ""
        called = ast.unparse(node).replace("\\", "")
        place = f"{self.place}: {named or called[:46]}"
        flags = (
            node.args[1:2] if function == "compile" else [each.value for each in node.keywords if each.arg == "flags"]
        )
        try:
            pattern = self._value(node.args[0])
            flag = int(self._value(flags[0])) if flags else 0
        except NameError:
            self.unread.append(place)
            return
        own = frozenset({"search" if function == "compile" else function})
        self.found.append((named, Expression(place, pattern, flag, own)))

    def _value(self, node):
        code = compile(ast.Expression(node), self.place, "eval")
        return eval(code, self._space)  # noqa: S307 - our own source, as it was written


def _modules() -> Iterator[tuple[str, ast.Module, _Reader]]:
    for path in sorted(each for room in _ROOMS for each in (ROOT / room).rglob("*.py")):
        place = str(path.relative_to(ROOT))
        source = path.read_text(encoding="utf-8")
        if "re." not in source or path.name == "__main__.py":
            continue
        reader = _Reader(
            place,
            importlib.import_module(f"muster.{place.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"),
        )
        tree = ast.parse(source)
        reader.visit(tree)
        yield place, tree, reader


def expressions() -> list[Expression]:
    """Return all that can be read where they stand."""
    return [
        Expression(each.place, each.pattern, each.flags, _uses(tree, name) if name else each.uses)
        for _, tree, reader in _modules()
        for name, each in reader.found
    ]


def unread() -> list[str]:
    """Return the places of those whose pattern is a value of a function's own."""
    return [place for _, _, reader in _modules() for place in reader.unread]


def _uses(tree, name):
    """The methods that a module calls on a pattern; `search` where it gives it to others or begins in the middle."""
    seen, held = set(), int(not name.startswith("_"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is(node.func.value, name):
            seen.add("search" if len(node.args) > 1 and node.func.attr != "sub" else node.func.attr)
            held -= 1
        elif isinstance(node, ast.Attribute) and node.attr == "pattern" and _is(node.value, name):
            held -= 1
        elif _is(node, name):
            held += 1
    return frozenset({*seen, *(["search"] if held or not seen else [])})


def _is(node, name):
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
