"""Reach: which tests could notice a fault, and in which order they are asked.

Tests that ran the line come first. A line that runs only while modules are imported or tests are collected, and one
whose answer is cached, is reached by name: the tests that ran a line which says the name that the line's definition
binds, and so on through names that are themselves bound at import.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.mutants.measures import Measurement
from tools.mutants.mutations import Mutant
from tools.mutants.places import name_of

__all__ = ["Reach", "Selection"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_CACHES = frozenset({"cache", "cached_property", "lru_cache"})
_FIRST_FILES = 3
_FIRST_TESTS = 150
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Selection:
    """Tests for a mutant, in two helpings.

    Attributes:
        first: of the few files that are most about the line, fastest first.
        others: all others that may notice, then the rest of the files of those that ran the line.
    """

    first: tuple[str, ...]
    others: tuple[str, ...]


class Reach:
    """Answers for one measurement of one source tree."""

    def __init__(self, root: Path, measurement: Measurement) -> None:
        self._root, self._measured = root, measurement
        self._trees: dict[str, ast.Module] = {}
        self._imported: dict[tuple[str, int], bool] = {}

    def of(self, mutant: Mutant) -> Selection:
        """Return the tests that may notice a fault."""
        direct = self._by_line(mutant.file, range(mutant.lines[0], mutant.lines[1] + 1))
        statement = _innermost(self._tree(mutant.file), mutant.lines[0])
        direct = direct or self._by_line(mutant.file, [statement.lineno])
        if not direct or self._cached(mutant) or self._at_import(mutant.file, mutant.lines[0]):
            direct |= self._by_name(mutant.file, mutant.lines[0], _DEPTH)
        return self._ordered(mutant.file, direct)

    def _tree(self, file: str) -> ast.Module:
        if file not in self._trees:
            self._trees[file] = ast.parse((self._root / file).read_bytes())
        return self._trees[file]

    def _by_line(self, file: str, lines: Iterable[int]) -> set[str]:
        by_line = self._measured.lines.get(file, {})
        return set().union(*(by_line.get(line, frozenset()) for line in lines))

    def _cached(self, mutant: Mutant) -> bool:
        around = _outermost(self._tree(mutant.file), mutant.lines[0])
        return any(name_of(each) in _CACHES for node in around for each in getattr(node, "decorator_list", []))

    def _by_name(self, file: str, line: int, depth: int, seen: frozenset[str] = frozenset()) -> set[str]:
        around = _outermost(self._tree(file), line)
        names = set().union(*(_bound(node) for node in around)) - seen
        out: set[str] = set()
        for name in names:
            for where, at in self._said.get(name, ()):
                out |= self._by_line(where, [at])
                if depth and self._at_import(where, at):
                    out |= self._by_name(where, at, depth - 1, seen | names)
        return out

    def _at_import(self, file: str, line: int) -> bool:
        """Tell whether a line runs while its module is imported, whoever the test was that started a program then."""
        if (file, line) not in self._imported:
            around = _around(self._tree(file), line)
            inside = [each for each in around if isinstance(each, _FUNCTIONS) and line >= each.body[0].lineno]
            self._imported[file, line] = not inside
        return self._imported[file, line]

    @cached_property
    def _said(self) -> Mapping[str, set[tuple[str, int]]]:
        """Where each name is said, by file and line."""
        out: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for file in self._measured.lines:
            for node in ast.walk(self._tree(file)):
                if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                    out[name_of(node)].add((file, node.lineno))
        return out

    @cached_property
    def _sizes(self) -> Counter[str]:
        """How many tests each file of tests has."""
        return Counter(_file(node) for node in self._measured.seconds)

    def _ordered(self, file: str, direct: set[str]) -> Selection:
        chosen = Counter(_file(node) for node in direct)
        about = sorted(chosen, key=lambda each: (-chosen[each] / (self._sizes[each] + 5), each))
        first = set(about[:_FIRST_FILES])
        near = self._by_line(file, self._measured.lines.get(file, {}))
        rest = {node for node in near - direct if _file(node) in chosen}
        nearest = tuple(self._fastest(node for node in direct if _file(node) in first))[:_FIRST_TESTS]
        return Selection(nearest, (*self._fastest(direct.difference(nearest)), *self._fastest(rest)))

    def _fastest(self, nodes: Iterable[str]) -> Sequence[str]:
        return sorted(nodes, key=lambda node: (self._measured.seconds.get(node, 1.0), node))


def _file(node: str) -> str:
    return node.partition("::")[0]


def _around(tree: ast.AST, line: int) -> Iterator[ast.stmt]:
    """Yield the statements that a line is in, outer ones first; a decorator is part of what it decorates."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            continue
        above = [each.lineno for each in getattr(child, "decorator_list", [])]
        first = min([getattr(child, "lineno", 0), *above])
        if first <= line <= getattr(child, "end_lineno", line):
            if isinstance(child, ast.stmt):
                yield child
            yield from _around(child, line)


def _innermost(tree: ast.Module, line: int) -> ast.stmt:
    return list(_around(tree, line))[-1]


def _outermost(tree: ast.Module, line: int) -> list[ast.stmt]:
    """Return what binds the names by which a line is known: the function or class, or the assignment of a module."""
    around = list(_around(tree, line))
    return [node for node in around if isinstance(node, _DEFINITIONS)] or around


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, _DEFINITIONS):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {name_of(each) for target in targets if target for each in ast.walk(target)} - {""}
