"""A part of a Markdown page that a program writes, between two comments which people leave alone."""

from __future__ import annotations

from pathlib import Path

__all__ = ["replaced", "write"]


def replaced(page: str, name: str, text: str) -> str:
    """Return the page with other text between the comments `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Raises:
        ValueError: the page has not just one of each, in this order.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"the page must have {begin} once, and {end} once behind it")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{rest.partition(end)[2]}"


def write(page: Path, name: str, text: str) -> None:
    """Put the text between these comments of a page.

    Raises:
        ValueError: as `replaced`.
    """
    page.write_text(replaced(page.read_text(encoding="utf-8"), name, text), encoding="utf-8")
