"""Guesses: which of many names a misspelt one probably means.

`difflib` compares each name with the word, which takes a millisecond for a few hundred names, and a hostile job has as
many words as it likes. Most names cannot reach the cutoff, which their lengths and letters say without a comparison.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable

__all__ = ["Guesses"]

_REMEMBERED = 512  # words; a job of many parts has the same ones in each


class Guesses:
    """The names that a word may mean.

    Args:
        names: all of them.
        cutoff: the least ratio of `difflib` that counts as close.
    """

    def __init__(self, names: Iterable[str], cutoff: float) -> None:
        self._names = [(each, len(each), frozenset(each)) for each in sorted(names)]
        self._cutoff = cutoff
        self.closest = functools.lru_cache(_REMEMBERED)(self._closest)

    def _closest(self, word: str) -> str | None:
        """Return the name that is closest to a short word, None where none is close; as `get_close_matches` does."""
        length, letters, cutoff = len(word), frozenset(word), self._cutoff
        # A ratio is twice the characters in common by all; those of letters that the name lacks are not in common.
        near = [
            name
            for name, size, own in self._names
            if 2 * min(length, size) >= cutoff * (length + size)
            and 2 * (length - len(letters - own)) >= cutoff * (length + size)
            and 2 * (size - len(own - letters)) >= cutoff * (length + size)
        ]
        return next(iter(difflib.get_close_matches(word, near, 1, cutoff)), None)
