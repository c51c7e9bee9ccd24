"""Diffs: two texts compared for people, in colour on a terminal."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from muster.webhook.cli import problems

__all__ = ["Difference", "is_coloured", "lines", "show"]

_COLOURS = {"+": "32", "-": "31", "@": "36"}
_BOLD = "1"


class Difference(NamedTuple):
    """Two texts to compare, with a name for people, and what the two are."""

    name: str
    before: str
    after: str
    first: str = "before"
    second: str = "after"


def show(differences: Iterable[Difference], color: str) -> None:
    """Print unified diffs; equal texts print nothing.

    Args:
        differences: what to compare.
        color: `always`, `never`, or `auto`: on a terminal, unless the environment has NO_COLOR.
    """
    coloured = is_coloured(color)
    for difference in differences:
        for line in lines(difference):
            print(_coloured(line) if coloured else line)


def lines(difference: Difference) -> Iterator[str]:
    """Yield the lines of a unified diff, with three lines of context."""
    name = problems.clean(difference.name)
    before, after = difference.before.splitlines(), difference.after.splitlines()
    first, second = f"{name} ({difference.first})", f"{name} ({difference.second})"
    return difflib.unified_diff(before, after, first, second, lineterm="")


def is_coloured(color: str) -> bool:
    """Decide about colour for standard output (https://no-color.org)."""
    if color != "auto":
        return color == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(line: str) -> str:
    code = _BOLD if line.startswith(("--- ", "+++ ")) else _COLOURS.get(line[:1])
    return f"\x1b[{code}m{line}\x1b[0m" if code else line
