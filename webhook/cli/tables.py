"""Tables that fit a terminal: columns share its width, and long cells are wrapped.

Text is broken at spaces and at the separators of field paths and command lines, and inside a word only when it is
longer than its column.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence

from muster.webhook.cli import problems

__all__ = ["MIN_WIDTH", "layout", "terminal_width", "wrap"]

MIN_WIDTH = 80
_FALLBACK = (120, 24)  # for a pipe, which has no width
_GAP = "  "
_MIN_COLUMN = 8
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
    lines = [""]
    for piece in _pieces(text, width):
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
