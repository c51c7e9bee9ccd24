"""Characters that a terminal does not show but obeys: control characters, and those that change the order of a text.

Documents are written by people who may want a reader to see something else than is there. JSON and YAML have escapes
for such characters, which mean the same value.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

__all__ = ["is_hidden", "shown"]

_SUSPECTS = re.compile(r"[^\n\t -~]")


def is_hidden(text: str) -> bool:
    """Whether a text has a character that is not seen; ends of lines, tabs and spaces are seen."""
    return not text.isprintable() and any(_is_hidden(found[0]) for found in _SUSPECTS.finditer(text))


def shown(text: str, escape: Callable[[str], str]) -> str:
    """Replace each character that is not seen by its escape."""
    if text.isascii() and text.isprintable():
        return text
    return _SUSPECTS.sub(lambda found: escape(found[0]) if _is_hidden(found[0]) else found[0], text)


def _is_hidden(character: str) -> bool:
    return not character.isprintable() and unicodedata.category(character) != "Zs"
