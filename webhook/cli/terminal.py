"""What a terminal shows: tables, lines that are wrapped, and two texts compared, in colour where that is wanted."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from muster.webhook.cli import problems

__all__ = [
    "MIN_WIDTH",
    "Difference",
    "diff_lines",
    "fill",
    "is_coloured",
    "layout",
    "show_diffs",
    "terminal_width",
    "wrap",
]

MIN_WIDTH = 80
_FALLBACK = (120, 24)  # for a pipe, which has no width
_GAP = "  "
_MIN_COLUMN = 8
_BLANKS = re.compile(r"(?<= )(?! )")
_JOINTS = re.compile(r"(?<= )(?! )|(?<=[./,:_=\]])(?=\w)|(?<=\w-)(?=\w)|(?<=\w)(?=\[)")


def terminal_width() -> int:
    """Return the width in characters: of the terminal (or COLUMNS), at least `MIN_WIDTH`."""
    return max(shutil.get_terminal_size(_FALLBACK).columns, MIN_WIDTH)


def layout(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the lines of a table, none longer than `width`; control characters are written as escapes."""
    table = [[problems.clean(cell) for cell in row] for row in (headers, *rows)]
    natural = [max(len(row[column]) for row in table) for column in range(len(headers))]
    widths = _shared(natural, width - len(_GAP) * (len(headers) - 1))
    for row in table:
        cells = [wrap(cell, column) for cell, column in zip(row, widths, strict=True)]
        for index in range(max(map(len, cells))):
            line = [
                (cell[index] if index < len(cell) else "").ljust(column)
                for cell, column in zip(cells, widths, strict=True)
            ]
            yield _GAP.join(line).rstrip()


def wrap(text: str, width: int) -> list[str]:
    """Break a text into lines of at most `width` characters; an empty text is one empty line."""
    return _lines(_pieces(text, width), width)


def fill(text: str, width: int) -> list[str]:
    """Break a text between words alone, so that each can be copied; a word that is longer than a line is broken."""
    words = _BLANKS.split(text)
    return _lines(
        (piece for word in words for piece in ([word] if len(word) <= width else _pieces(word, width))), width
    )


def _lines(pieces: Iterable[str], width: int) -> list[str]:
    lines = [""]
    for piece in pieces:
        if len(lines[-1]) + len(piece.rstrip()) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _pieces(text: str, width: int) -> Iterator[str]:
    for piece in _JOINTS.split(text):
        yield from (piece[start : start + width] for start in range(0, len(piece), width))


def _shared(natural: Sequence[int], available: int) -> list[int]:
    """Give each column the width that it needs, or an equal share of what the narrower ones leave."""
    widths = [0] * len(natural)
    left = available
    order = sorted(range(len(natural)), key=lambda column: natural[column])
    for taken, column in enumerate(order):
        widths[column] = min(natural[column], max(left // (len(natural) - taken), _MIN_COLUMN))
        left -= widths[column]
    return widths


_COLOURS = {"+": "32", "-": "31", "@": "36"}
_BOLD = "1"


class Difference(NamedTuple):
    """Two texts to compare, with a name for people, and what the two are."""

    name: str
    before: str
    after: str
    first: str = "before"
    second: str = "after"


def show_diffs(differences: Iterable[Difference], color: str) -> None:
    """Print unified diffs; equal texts print nothing.

    Args:
        differences: what to compare.
        color: `always`, `never`, or `auto`: on a terminal, unless the environment has NO_COLOR.
    """
    coloured = is_coloured(color)
    for difference in differences:
        for line in diff_lines(difference):
            print(_coloured(line) if coloured else line)


def diff_lines(difference: Difference) -> Iterator[str]:
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
