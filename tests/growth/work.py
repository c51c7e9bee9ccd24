"""Counted work: the product's own code, rewritten so that each step adds to a counter.

Seconds depend on the machine, and a count of lines does not see what one line costs: `name in names` of a long list, a
slice of a long text. So the source of the product is rewritten when it is imported: each loop, each call and each
operation on a text, a list or a mapping adds the size of what it touches. The counts are the same on every machine.

This is for a process of its own (`python -m tests.growth.measure`): `install` comes before the product is imported.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.machinery
import re
import sys
import types

__all__ = ["COUNTED", "install", "work"]

COUNTED = ("muster.strategies", "muster.webhook.admission")
"""Packages whose work is counted."""

_PER_STEP = 8  # characters that a copy or a comparison of text handles in the time of one step
_CONSTANT = frozenset(
    {
        *("append", "add", "get", "setdefault", "pop", "keys", "items", "values", "isinstance", "len", "type", "id"),
        *("hash", "iter", "next", "range", "enumerate", "zip", "map", "filter", "islice", "chain", "getattr", "count"),
        *("startswith", "endswith", "discard", "issubclass", "callable", "partial", "replace_fields", "cast", "group"),
    }
)
_SEARCHES = frozenset({"match", "search", "fullmatch"})


class _Work:
    """The counter, and the operations that add to it."""

    def __init__(self) -> None:
        self.steps = 0

    def tick(self) -> None:
        self.steps += 1

    def each(self, found):
        for item in found:
            self.steps += 1
            yield item

    def result(self, found):
        self.steps += 1 + _size(found)
        return found

    def contains(self, item, held):
        if isinstance(held, (list, tuple, str, bytes)):
            self.steps += _size(held)
        self.steps += 1
        return item in held

    def equals(self, one, other):
        self.steps += 1 + _compared(one, other)
        return one == other

    def call(self, function, /, *arguments, **named):
        kind = type(function)
        if kind is types.MethodType:
            kind = type(function.__func__)
        if kind is types.FunctionType and (function.__module__ or "").startswith(COUNTED):
            return function(*arguments, **named)
        name = getattr(function, "__name__", "")
        held = getattr(function, "__self__", None)
        if name in ("find", "index") and isinstance(held, str):
            return self._found(function, held, arguments)
        if isinstance(held, re.Pattern):
            return self._searched(name, function, arguments)
        at_end = name == "insert" and arguments[0] == _size(held)
        if (
            at_end
            or name in _CONSTANT
            or (isinstance(function, type) and (function.__module__ or "").startswith(COUNTED))
        ):
            self.steps += 1 + sum(len(each) for each in arguments if name == "startswith" and isinstance(each, tuple))
            return function(*arguments, **named)
        self.steps += 1 + sum(map(_size, arguments))
        if not isinstance(held, types.ModuleType) and name not in ("extend", "update"):
            self.steps += _size(held)
        return self.result(function(*arguments, **named))

    def _found(self, function, held, arguments):
        """Look for a text from a place on; what lies before it and behind the find costs nothing."""
        start = arguments[1] if len(arguments) > 1 else 0
        place = function(*arguments)
        self.steps += 1 + ((place if place >= 0 else len(held)) - start) // _PER_STEP
        return place

    def _searched(self, name, function, arguments):
        text = arguments[-1] if name == "sub" else arguments[0]
        start = arguments[1] if name in _SEARCHES and len(arguments) > 1 else 0
        found = function(*arguments)
        if name == "match" or (name == "search" and found):
            self.steps += 1 + ((found.end() - start) // _PER_STEP if found else 0)
        else:
            self.steps += 1 + (len(text) - start) // _PER_STEP
        return found


def _size(value) -> int:
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) // _PER_STEP
    return len(value) if isinstance(value, (list, tuple, dict, set, frozenset)) else 0


def _compared(one, other) -> int:
    """Return what it takes to compare; nested values are compared as deep as they are."""
    if type(one) is not type(other) or not isinstance(one, (str, list, tuple, dict)) or len(one) != len(other):
        return 0
    total, waiting = 0, [one]
    while waiting:
        found = waiting.pop()
        total += 1 + _size(found)
        if isinstance(found, dict):
            waiting.extend(found.values())
        elif isinstance(found, (list, tuple)):
            waiting.extend(found)
    return total


work = _Work()
_NAME = "__work__"


class _Rewriter(ast.NodeTransformer):
    """Puts a call of the counter around each operation whose cost depends on its operands."""

    def _made(self, node, method, *arguments):
        target = ast.Attribute(ast.Name(_NAME, ast.Load()), method, ast.Load())
        return ast.copy_location(ast.Call(target, list(arguments), []), node)

    def visit_Call(self, node):  # the name that ast calls
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", "globals", "vars"):
            return node
        target = ast.Attribute(ast.Name(_NAME, ast.Load()), "call", ast.Load())
        return ast.copy_location(ast.Call(target, [node.func, *node.args], node.keywords), node)

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        method = {ast.In: "contains", ast.NotIn: "contains", ast.Eq: "equals", ast.NotEq: "equals"}.get(
            type(node.ops[0])
        )
        if method is None:
            return node
        made = self._made(node, method, node.left, node.comparators[0])
        denied = isinstance(node.ops[0], (ast.NotIn, ast.NotEq))
        return ast.copy_location(ast.UnaryOp(ast.Not(), made), node) if denied else made

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return self._made(node, "result", node)

    def visit_JoinedStr(self, node):
        for each in node.values:  # their format specs are JoinedStr too, and have to stay so
            if isinstance(each, ast.FormattedValue):
                each.value = self.visit(each.value)
        return self._made(node, "result", node)

    def visit_Subscript(self, node):
        self.generic_visit(node)
        sliced = isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load)
        return self._made(node, "result", node) if sliced else node

    def _display(self, node):
        self.generic_visit(node)
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return node
        items = [*getattr(node, "elts", ()), *(key for key in getattr(node, "keys", ()))]
        spread = any(item is None or isinstance(item, ast.Starred) for item in items)
        return self._made(node, "result", node) if spread else node

    visit_List = visit_Tuple = visit_Set = visit_Dict = _display  # noqa: N815  # the names that ast calls

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        held = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        return [node, ast.copy_location(ast.Expr(self._made(node, "grown", held)), node)]

    def visit_comprehension(self, node):
        self.generic_visit(node)
        node.iter = self._made(node.iter, "each", node.iter)
        return node

    def visit_For(self, node):
        self.generic_visit(node)
        node.iter = self._made(node.iter, "each", node.iter)
        return node

    def visit_While(self, node):
        self.generic_visit(node)
        node.body.insert(0, self._ticked(node))
        return node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        if ast.get_docstring(node) is None or len(node.body) > 1:
            node.body.insert(int(ast.get_docstring(node) is not None), self._ticked(node))
        return node

    def _ticked(self, node):
        return ast.copy_location(ast.Expr(self._made(node, "tick")), node)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arguments(self, node):
        node.defaults = [self.visit(each) for each in node.defaults]
        node.kw_defaults = [each and self.visit(each) for each in node.kw_defaults]
        return node


def _grown(self, found):
    self.steps += _size(found) if isinstance(found, (str, tuple)) else 1


_Work.grown = _grown


class _Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data, path, *, _optimize=-1):
        tree = ast.parse(data, filename=path)
        return compile(ast.fix_missing_locations(_Rewriter().visit(tree)), path, "exec", dont_inherit=True)

    def get_code(self, _fullname):
        return self.source_to_code(self.get_data(self.path), self.path)  # never from, or into, the cache of bytecode

    def exec_module(self, module):
        module.__dict__[_NAME] = work
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if not (fullname + ".").startswith(tuple(f"{each}." for each in COUNTED)):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Count the work of what is imported from now on.

    Raises:
        RuntimeError: the product is imported already.
    """
    if any(name in sys.modules for name in COUNTED):
        raise RuntimeError("the product is imported already; count in a process of its own")
    functools.lru_cache = _uncached
    sys.meta_path.insert(0, _Finder())


def _uncached(maxsize=128, typed=False):
    """Take the place of lru_cache, so that a count does not depend on what was counted before."""
    return maxsize if callable(maxsize) else lambda function: function
