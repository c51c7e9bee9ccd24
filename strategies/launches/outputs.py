"""Outputs: what `echo`, `printf`, `cat` and `tee` print of the words and the text that a shell gives them.

A script or a list of hosts is often written so, and then run or read. The rules are those of bash 5.2 (`echo`,
`printf`) and of POSIX.1-2024 for the conversions. What depends on more than the words is not known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["printed"]

_FLAGS = re.compile(r"-[neE]+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "\\": "\\", "r": "\r", '"': '"', "'": "'"}
_CONVERSION = re.compile(r"%(.)", re.DOTALL)
_LONGEST = 65_536  # characters of what is printed


def printed(words: Sequence[str], stdin: str | None) -> str | None:
    """Return what a command prints, None where that is not known.

    Args:
        words: the command, expanded.
        stdin: the here-document that it reads; None for none.
    """
    name, rest = words[0], words[1:]
    if name == "cat":
        return stdin if not rest else None
    if name == "echo":
        return _echo(rest)
    if name == "printf" and rest and not rest[0].startswith("-"):
        return _printf(rest[0], rest[1:])
    return None


def _echo(words: Sequence[str]) -> str | None:
    at = next((index for index, word in enumerate(words) if not _FLAGS.fullmatch(word)), len(words))
    flags = "".join(words[:at])
    text = " ".join(words[at:])
    read = _unescaped(text) if "e" in flags else text
    return None if read is None else read + ("" if "n" in flags else "\n")


def _printf(form: str, words: Sequence[str]) -> str | None:
    """Print a form as often as there are words for it, at least once."""
    read = _unescaped(form)
    kinds = _CONVERSION.findall(form)
    if read is None or any(kind not in "sd%" for kind in kinds):
        return None
    each = len([kind for kind in kinds if kind != "%"])
    rounds = max(-(-len(words) // each), 1) if each else 1
    if rounds * len(read) + sum(map(len, words)) > _LONGEST:
        return None
    left = iter(words)
    return "".join(
        _CONVERSION.sub(lambda found: "%" if found[1] == "%" else next(left, ""), read) for _ in range(rounds)
    )


def _unescaped(text: str) -> str | None:
    """Return a text without its escapes; None where one of them is another than those of lines and quotes."""
    if any(found not in _ESCAPED for found in _ESCAPE.findall(text)):
        return None
    return _ESCAPE.sub(lambda found: _ESCAPED[found[1]], text)
