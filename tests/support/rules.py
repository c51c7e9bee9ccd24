"""Rule ids: those that the code writes, read from its syntax trees, and those that a test run has seen."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from muster.strategies.changes.changes import Change
from muster.strategies.documents.findings import Finding
from muster.webhook import catalogue

ROOT = Path(__file__).parents[2]
_ROOMS = ("strategies", "webhook")
_ID = re.compile(r"[a-z0-9{}-]+(/[a-z0-9{}-]+)+")
_FAMILY = ("framework", "self.framework", "rule")
"""What stands for the framework's name in an f-string that makes an id."""

seen: dict[str, set[str]] = {}
"""What the id of each finding and change of this test run was reported as."""


def watch() -> None:
    """Remember the rule of every finding and every change that is made from now on."""
    Finding.__init__ = _remembering(Finding.__init__)
    Change.__new__ = _remembering_change(Change.__new__)


def strangers() -> list[str]:
    """Return what was seen of the groups of the catalogue and is not in it, and forget what was seen."""
    known, groups = catalogue.load(), _groups()
    found = [
        f"{each} as {kind}"
        for each, kinds in seen.items()
        for kind in kinds
        if each.partition("/")[0] in groups and (each not in known or kind not in known[each].kinds)
    ]
    seen.clear()
    return found


@functools.cache
def _groups() -> frozenset[str]:
    return frozenset(each.partition("/")[0] for each in catalogue.load())


@functools.cache
def written() -> tuple[tuple[str, str], ...]:
    """Return each id in the code, with {} for a name that is only known when it runs, and where it stands."""
    return tuple(_written())


def _written() -> Iterator[tuple[str, str]]:
    groups = _groups()
    for room in _ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                found = _pattern(node)
                if found and _ID.fullmatch(found) and found.partition("/")[0] in groups | {"{}"}:
                    yield found, f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / room).rglob("*rows.toml")):
            # The rows of an upstream package are those of the room that judges them.
            where = str(path.relative_to(ROOT)).replace("strategies/upstream/", "strategies/frameworks/")
            yield from ((row["rule"], where) for row in tomllib.loads(path.read_text(encoding="utf-8"))["row"])


def _pattern(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if not isinstance(node, ast.JoinedStr):
        return ""
    first = node.values[0]
    if isinstance(first, ast.FormattedValue) and ast.unparse(first.value) not in _FAMILY:
        return ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def _remembering(make):
    def remembering(self, *args, **members):
        make(self, *args, **members)
        _see(self.rule, getattr(self.severity, "value", None))

    return remembering


def _remembering_change(make):
    def remembering(*args, **members):
        made = make(*args, **members)
        _see(made.rule, "change")
        return made

    return remembering


def _see(rule, kind):
    if isinstance(rule, str) and isinstance(kind, str):  # tests of rubbish make others
        seen.setdefault(rule, set()).add(kind)
