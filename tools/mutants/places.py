"""Places: the nodes of a file in which a fault means something, and where they stand in its bytes."""

from __future__ import annotations

import ast
import bisect
import itertools
import re
from collections.abc import Iterator

__all__ = ["Source", "is_for_people", "name_of", "walk"]

_COMMA = re.compile(rb"\s*,")
_LOGGERS = frozenset({"log", "_log", "logger", "_logger", "logging"})
_TYPED = frozenset({"Literal", "TypeVar", "cast", "NewType", "ParamSpec"})
_WORDS = re.compile(r"\S \S")
_UNSEEN = frozenset({"__all__", "__slots__"})


class Source:
    """The bytes of a file by line and column."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._starts = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the first byte of a node and the one after its last."""
        start = self._starts[getattr(node, "lineno") - 1] + getattr(node, "col_offset")  # noqa: B009 - AST has neither
        end = self._starts[getattr(node, "end_lineno") - 1] + getattr(node, "end_col_offset")  # noqa: B009 - ditto
        return start, end

    def text(self, node: ast.AST) -> str:
        """Return how a node is written."""
        start, end = self.span(node)
        return self._source[start:end].decode()

    def with_comma(self, node: ast.AST) -> tuple[int, int]:
        """Return the span of an argument with the comma behind it."""
        start, end = self.span(node)
        comma = _COMMA.match(self._source, end)
        return start, comma.end() if comma else end

    def decorator(self, node: ast.AST) -> tuple[int, int]:
        """Return the span of a decorator with its `@`."""
        start, end = self.span(node)
        return self._source.rindex(b"@", 0, start), end

    def lines(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return the first and the last line of a span, from 1."""
        start, end = span
        return bisect.bisect_right(self._starts, start), bisect.bisect_left(self._starts, end)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in which faults are planted, outer ones first, without what is equivalent by policy."""
    yield node
    for child in _children(node):
        if not _is_left_out(child):
            yield from walk(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Go on to what runs and is not the text of a `raise`, and not into f-strings, whose columns are lost."""
    if isinstance(node, ast.JoinedStr):
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _said(child) if isinstance(node, ast.Raise) else [child]


def _said(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the arguments of an exception that are not texts."""
    if isinstance(node, ast.Call):
        yield from (each for each in [*node.args, *node.keywords] if not _is_text(each))


def _is_text(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.keyword) else node
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str))


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_log(node.value)
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(name_of(target) in _UNSEEN for target in targets)
    if isinstance(node, ast.If):
        return name_of(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Subscript):
        return name_of(node.value) in _TYPED
    if isinstance(node, ast.Call):
        return name_of(node.func) in _TYPED or _is_log(node)
    return isinstance(node, (ast.Import, ast.ImportFrom)) or is_for_people(node)


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and name_of(node.func.value) in _LOGGERS


def is_for_people(node: ast.AST) -> bool:
    """Tell whether a node is a text with a blank in it, which no program reads."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(each, ast.Constant) and " " in str(each.value) for each in node.values)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_WORDS.search(node.value))


def name_of(node: ast.AST | None) -> str:
    """Return the last name of a name, an attribute or a call, "" for anything else."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
