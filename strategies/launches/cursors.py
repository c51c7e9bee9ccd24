"""Cursors: a place in a shell's text, what can be asked of it, and the bounds of what is read.

`word_syntax` parses words with it, and `syntax` whole texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from muster.strategies.launches.trees import Word

__all__ = ["Cursor", "Unreadable"]

MAX_STATEMENTS = 512
MAX_WORDS = 2_048
_SHOWN = 240
_DEPTH = 80
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_WORD_END = re.compile(r"(?=[\s;&|()<>]|\Z)")


class Unreadable(Exception):  # noqa: N818  # no fault of ours
    """The text is not one that is parsed; the message is a clause."""


class Cursor:
    """A place, `at`, in a text, and how deep it is nested in others."""

    def __init__(self, text: str, depth: int) -> None:
        self.text, self.at, self._depth = text, 0, depth
        self._count = 0

    def _written(self, start: int) -> str:
        return self.text[start : min(self.at, start + _SHOWN)].strip()

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _looking(self, *texts: str) -> bool:
        return self.text.startswith(texts, self.at)

    def _word_ahead(self) -> str:
        """Return the plain word at this place, "" where it is longer than any that matters."""
        end = _WORD_END.search(self.text, self.at, self.at + 12)
        return self.text[self.at : end.start()] if end is not None and self._ends(end.start()) else ""

    def _ends(self, place: int) -> bool:
        return place >= len(self.text) or self.text[place] in " \t\r\n;&|()<>"

    def _expect(self, text: str) -> None:
        if not self._looking(text):
            self._fail()
        self.at += len(text)

    def _blanks(self) -> None:
        found = _BLANKS.match(self.text, self.at)
        if found is not None:
            self.at = found.end()

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise Unreadable("the shell's text nests deeper than Muster reads")

    def _few(self, words: Sequence[Word]) -> None:
        if len(words) > MAX_WORDS:
            raise Unreadable("a command has more words than Muster reads")

    def _counted(self) -> None:
        self._count += 1
        if self._count > MAX_STATEMENTS:
            raise Unreadable("the shell's text runs more commands than Muster reads")

    def _fail(self) -> NoReturn:
        raise Unreadable("the shell's text is not one that Muster can parse")
