"""Tables in Markdown, as GitHub and the site read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that ends with a line break; a `|` and a line break in a cell are written so that it stays one."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
