"""How long, as people write it: `90s`, `15m`, `24h`, `30d`."""

from __future__ import annotations

import re

__all__ = ["seconds"]

_FORM = re.compile(r"(\d{1,6})(s|m|h|d)")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """Return the seconds of a text. Raises `ValueError` when it is not of the form."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r}: write a number with s, m, h or d, such as 24h")
    return int(found[1]) * _UNITS[found[2]]
