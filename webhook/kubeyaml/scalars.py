"""Scalars: what an unquoted word means to kubectl.

YAML 1.1, 1.2, PyYAML and Go's parsers disagree about `y`, `1e3`, `0o17` and `22:22`. The API server gets what kubectl
sends, so kubectl's reading is the right one: goyaml.v2 `resolve.go`, then sigs.k8s.io/yaml, which writes a whole float
without a point and turns every key into a string.
"""

from __future__ import annotations

import base64
import functools
import math
import re

__all__ = ["TAG", "key", "plain", "tagged"]

TAG = "tag:yaml.org,2002:"
"""The prefix that `!!` stands for."""

_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_HINTS = frozenset("+-.0123456789yYnNtTfFoO~")
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[+-]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][+-]?[0-9]+)?")
_OCTAL = re.compile(r"([+-]?)0[oO]?([0-7]+)")
_INTEGERS = range(-(2**63), 2**64)
_LONGEST_INTEGER = 70  # characters: 64 binary digits, a sign and a prefix
_SHORT = 64  # characters of a word that is remembered; longer ones would keep their memory
_WHOLE = 1e21  # below it Go writes a whole float64 without exponent, so that it arrives as an integer


def plain(word: str) -> str | float | bool | None:
    """Return the value that kubectl reads for an unquoted word, which may be the word as a string."""
    return _remembered(word) if len(word) <= _SHORT else _plain(word)


def _plain(word: str) -> str | float | bool | None:
    if word and word[0] not in _HINTS:
        return word
    if word in _WORDS:
        return _WORDS[word]
    digits = word if word[0] == "." else word.replace("_", "")
    if len(digits) <= _LONGEST_INTEGER and _INTEGER.fullmatch(digits):
        octal = _OCTAL.fullmatch(digits)
        value = int(octal[1] + octal[2], 8) if octal else int(digits, 0)
        if value in _INTEGERS:
            return value
    if not _FLOAT.fullmatch(digits) or math.isinf(float(digits)):
        return word
    number = float(digits)
    return int(number) if number.is_integer() and abs(number) < _WHOLE else number


_remembered = functools.lru_cache(maxsize=4096)(_plain)


def tagged(tag: str, word: str) -> str | float | bool | None:
    """Return the value of a scalar with a tag other than that of a string; kubectl ignores a tag that it does not know.

    Raises:
        ValueError: the word does not fit the tag.
    """
    if tag == TAG + "binary":
        return base64.b64decode(word, validate=True).decode()
    value = plain(word)
    if tag == TAG + "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    wanted = {TAG + "int": int, TAG + "float": float, TAG + "bool": bool, TAG + "null": type(None)}.get(tag)
    if wanted is None:
        return word
    if isinstance(value, str) or type(value) is not wanted:
        raise ValueError(f"it does not fit its tag !!{tag.removeprefix(TAG)}")
    return value


def key(value: str | float | bool) -> str:
    """Return a key as a string, as JSON requires: `8080: x` becomes `"8080": x`, `on: x` becomes `"true": x`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
