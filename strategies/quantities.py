"""Kubernetes quantities as the integers that Trainer counts with.

Source: apimachinery `pkg/api/resource/quantity.go`: decimal and binary suffixes, exponents; `Value()` rounds up to the
next integer, so `2500m` CPU is 3.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil

__all__ = ["count", "value"]

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?")
_FACTORS = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate(("m", "u", "n"), start=1)},
}


def value(quantity: str | float) -> int:
    """Return `Value()` of a quantity: its amount, rounded up to an integer.

    Raises:
        ValueError: the text is not a quantity.
    """
    if isinstance(quantity, int):
        return quantity
    text = str(quantity)
    if text.isdecimal():
        return int(text)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a Kubernetes quantity such as 2, 500m or 16Gi")
    number, exponent, suffix = match.groups()
    amount = Fraction(number + (exponent or "")) * _FACTORS.get(suffix, Fraction(1))
    return ceil(amount)


def count(quantity: str | float | None) -> int:
    """Return `value`, or 0 for what is missing or no quantity; `checks` reports the latter by its field path."""
    try:
        return 0 if quantity is None else value(quantity)
    except ValueError:
        return 0
