"""Mutations: the faults that can be planted in a file, each of them one small change of its source.

What is left out is equivalent by policy: texts that only people read (docstrings, strings with a blank in them, what is
said with a `raise`, log lines), annotations, imports, `__all__`, and the arguments of `@dataclass`, which keep
programmers from mistakes and change nothing that runs.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.mutants import places
from tools.mutants.places import Source

__all__ = ["KINDS", "Mutant", "mutants"]

_Change = tuple[tuple[int, int], str]
_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COUNTERPARTS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
_EMPTY = {
    "str": '""',
    "bytes": 'b""',
    "int": "0",
    "list": "[]",
    "tuple": "()",
    "dict": "{}",
    "set": "set()",
    "frozenset": "frozenset()",
    "Sequence": "()",
    "Iterable": "()",
    "Iterator": "iter(())",
    "Mapping": "{}",
}
_INERT = frozenset({"property", "classmethod", "staticmethod", "dataclass", "overload", "cache", "cached_property"})
_GENERATED = frozenset({"asynccontextmanager", "contextmanager", "runtime_checkable", "override", "abstractmethod"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault that can be planted.

    Attributes:
        file: below the root.
        kind: of the mutation, a key of `KINDS`.
        lines: first and last line of what is changed, from 1.
        span: the first byte of what is replaced, and the one after the last.
        text: what replaces it.
    """

    file: str
    kind: str
    lines: tuple[int, int]
    span: tuple[int, int]
    text: str

    def planted(self, source: bytes) -> bytes:
        """Return the source of the file with the fault in it."""
        start, end = self.span
        return source[:start] + self.text.encode() + source[end:]

    def difference(self, source: bytes) -> tuple[str, ...]:
        """Return the lines that go and come, with `-` and `+` before them and without those around them."""
        before, after = source.decode().splitlines(), self.planted(source).decode().splitlines()
        found = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
        return tuple(line for line in found if not line.startswith("@@"))


def mutants(file: str, source: bytes) -> Iterator[Mutant]:
    """List every fault that can be planted in a file.

    Some are no Python (a `return` that was the only way a name is bound is, an argument before which another one went
    may not be); whoever plants one looks whether it compiles.

    Args:
        file: below the root.
        source: of the file.
    """
    text = Source(source)
    seen: set[tuple[tuple[int, int], str]] = set()
    for node in places.walk(ast.parse(source)):
        for kind, changes in KINDS.items():
            for span, new in changes(node, text):
                if (span, new) not in seen and source[slice(*span)] != new.encode():
                    seen.add((span, new))
                    yield Mutant(file, kind, text.lines(span), span, new)


def _rewritten(node: ast.expr, text: Source, new: ast.expr | str) -> _Change:
    return text.span(node), f"({new if isinstance(new, str) else ast.unparse(new)})"


def _comparisons(node: ast.AST, text: Source) -> Iterator[_Change]:
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            ops = [*node.ops[:index], _SWAPPED[type(operator)](), *node.ops[index + 1 :]]
            yield _rewritten(node, text, ast.Compare(node.left, ops, node.comparators))


def _conjunctions(node: ast.AST, text: Source) -> Iterator[_Change]:
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _rewritten(node, text, ast.BoolOp(other, node.values))


def _negations(node: ast.AST, text: Source) -> Iterator[_Change]:
    """Negate the condition of a branch, a loop or a comprehension where no other mutation does."""
    tests = node.ifs if isinstance(node, ast.comprehension) else [getattr(node, "test", None)]
    for test in tests:
        if isinstance(test, ast.expr) and not isinstance(test, (ast.Constant, ast.UnaryOp)):
            ops = test.ops if isinstance(test, ast.Compare) else []
            if len(ops) != 1 or isinstance(ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                yield _rewritten(test, text, f"not ({text.text(test)})")


def _nots(node: ast.AST, text: Source) -> Iterator[_Change]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _rewritten(node, text, text.text(node.operand))


def _numbers(node: ast.AST, text: Source) -> Iterator[_Change]:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield text.span(node), str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield text.span(node), repr(node.value + 1)
        if node.value >= 1:
            yield text.span(node), repr(node.value - 1)


def _arithmetic(node: ast.AST, text: Source) -> Iterator[_Change]:
    """Exchange an operator of numbers; what joins texts or sequences would only be a TypeError."""
    if isinstance(node, ast.BinOp) and type(node.op) in _COUNTERPARTS:
        joined = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
        texts = [isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right)]
        if not any(texts) and not isinstance(node.left, joined) and not isinstance(node.right, joined):
            yield _rewritten(node, text, ast.BinOp(node.left, _COUNTERPARTS[type(node.op)](), node.right))


def _strings(node: ast.AST, text: Source) -> Iterator[_Change]:
    """Add a character to a constant."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield text.span(node), repr(node.value + "~")
    elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
        yield text.span(node), repr(node.value + b"~")
    elif isinstance(node, ast.JoinedStr):
        yield _rewritten(node, text, f'{text.text(node)} "~"')


def _statements(node: ast.AST, text: Source) -> Iterator[_Change]:
    """Drop a statement that binds no name."""
    stored = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [getattr(node, "target", None)]
    binds = any(not isinstance(target, (ast.Attribute, ast.Subscript)) for target in stored)
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Delete)) and binds:
        return
    if isinstance(node, ast.Return) and node.value is not None:
        return
    if isinstance(node, _DROPPED):
        yield text.span(node), "pass"


_DROPPED = (
    ast.Expr,
    ast.Raise,
    ast.Continue,
    ast.Break,
    ast.Return,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Delete,
)


def _returns(node: ast.AST, text: Source) -> Iterator[_Change]:
    """Return None, and what is empty where the annotation says what that is; a `bool` is turned over."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    for each, value in _own_returns(node):
        constant = value.value if isinstance(value, ast.Constant) else ...
        if isinstance(node.returns, ast.Name) and node.returns.id == "bool":
            if constant is ...:
                yield text.span(each), f"return not ({text.text(value)})"
        elif constant is not None:
            kind = node.returns.value if isinstance(node.returns, ast.Subscript) else node.returns
            yield text.span(each), f"return {_EMPTY.get(places.name_of(kind), 'None')}"


def _own_returns(node: ast.AST) -> Iterator[tuple[ast.Return, ast.expr]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return) and child.value is not None:
            yield child, child.value
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _own_returns(child)


def _keywords(node: ast.AST, text: Source) -> Iterator[_Change]:
    if isinstance(node, ast.Call):
        for each in node.keywords:
            if each.arg not in (None, "repr") and not places.is_for_people(each.value):
                yield text.with_comma(each), ""


def _decorators(node: ast.AST, text: Source) -> Iterator[_Change]:
    """Take a decorator away whose absence is neither a TypeError wherever the name is used nor only lost time."""
    for each in getattr(node, "decorator_list", []):
        if places.name_of(each) not in _INERT | _GENERATED:
            yield text.decorator(each), ""


KINDS: dict[str, Callable[[ast.AST, Source], Iterator[_Change]]] = {
    "comparison": _comparisons,
    "and-or": _conjunctions,
    "negation": _negations,
    "not": _nots,
    "constant": _numbers,
    "arithmetic": _arithmetic,
    "string": _strings,
    "statement": _statements,
    "return": _returns,
    "keyword": _keywords,
    "decorator": _decorators,
}
"""What is done to a node, by the name of the mutation."""
