"""Expressions: what the parser of CEL refuses in a selection of devices, as far as brackets and quotation marks tell.

Source: the lexis of CEL (cel-spec `doc/langdef.md`); kubernetes `pkg/apis/resource/validation/validation.go`
validateCELSelector compiles each expression.
"""

from __future__ import annotations

import re

__all__ = ["wrong"]

_LONGEST = 10_240
"""Characters of an expression that Kubernetes takes (CELSelectorExpressionMaxLength)."""
_TOKEN = re.compile(
    r"//[^\n]*"
    r"|(?P<raw>[rR][bB]?|[bB][rR])(?:\"\"\"|'''|\"|')"
    r"|(?P<open>\"\"\"|'''|\"|')"
    r"|(?P<bracket>[()\[\]{}])"
    r"|[=!<>]=(?!=)"
    r"|(?P<assign>=)"
)
_PAIRS = {")": "(", "]": "[", "}": "{"}


def wrong(text: str) -> str:
    """Return what is wrong with an expression, as a clause; "" where nothing is seen."""
    if len(text) > _LONGEST:
        return f"has more than {_LONGEST} characters"
    place, opened = 0, list[str]()
    while (found := _TOKEN.search(text, place)) is not None:
        place = found.end()
        quote = found["open"] or (found[0][len(found["raw"]) :] if found["raw"] else "")
        if quote:
            place = _end(text, place, quote, raw=bool(found["raw"]))
            if place < 0:
                return f"lacks the closing {quote} of a text"
        elif found["assign"]:
            return "compares with a single =, and CEL with =="
        elif found["bracket"] and found[0] in _PAIRS:
            if not opened or opened.pop() != _PAIRS[found[0]]:
                return f"closes {found[0]} without opening it"
        elif found["bracket"]:
            opened.append(found[0])
    return f"does not close {opened[-1]}" if opened else ""


def _end(text: str, place: int, quote: str, *, raw: bool) -> int:
    """Return the place behind a text, -1 where it is not closed; each character is looked at once."""
    while place < len(text):
        if text.startswith(quote, place):
            return place + len(quote)
        if text[place] == "\n" and len(quote) == 1:
            return -1
        place += 2 if text[place] == "\\" and not raw else 1
    return -1
