"""Kubernetes quantities as the integers that Trainer counts with.

Source: apimachinery `pkg/api/resource/quantity.go`: decimal and binary suffixes, exponents; `Value()` rounds away from
zero to the next integer, so `2500m` CPU is 3, and no amount exceeds 64 bits. Anybody who may create a job may write
`1e999999999`, so numbers are bounded before they are computed.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction
from math import ceil, floor

from muster.strategies.documents.findings import beginning

__all__ = ["count", "exact", "value", "whole"]

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]+)|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?"
)
_MAX_DIGITS = 18  # of any number within 64 bits
_MAX_TEXT = 64  # characters
_MAX_EXPONENT = 99  # beyond it any number of 64 characters is over 64 bits, or under 1
_MAX = 2**63 - 1
_MILLI = 1_000
_FACTORS = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate(("m", "u", "n"), start=1)},
}


def value(quantity: str | float) -> int:
    """Return `Value()` of a quantity: its amount, rounded away from zero to an integer of at most 64 bits.

    Raises:
        ValueError: the text is not a quantity.
    """
    if type(quantity) is int:
        return max(-_MAX, min(_MAX, quantity))
    text = str(quantity)
    if len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    amount = _amount(text)
    return max(-_MAX, min(_MAX, ceil(amount) if amount > 0 else floor(amount)))


def exact(quantity: str | float) -> Fraction | int:
    """Return the amount that a resource list holds: rounded away from zero to thousandths, and not to integers.

    Source: kubernetes `pkg/apis/core/v1/defaults.go` SetDefaults_ResourceList.

    Raises:
        ValueError: the text is not a quantity.
    """
    text = str(quantity)
    if type(quantity) is int or (len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()):
        return value(quantity)
    thousandths = _amount(text) * _MILLI
    return Fraction(ceil(thousandths) if thousandths > 0 else floor(thousandths), _MILLI)


def _amount(text: str) -> Fraction:
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{beginning(text, _MAX_TEXT)!r} is not a Kubernetes quantity such as 2, 500m or 16Gi")
    return _parsed(text)


@functools.lru_cache(maxsize=1024)  # jobs write the same few amounts
def _parsed(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a Kubernetes quantity such as 2, 500m or 16Gi")
    number, exponent, suffix = match.groups()
    power = max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(exponent or 0)))
    return Fraction(number) * Fraction(10) ** power * _FACTORS.get(suffix, 1)


def whole(text: str | None) -> int | None:
    """Return a number written as digits alone, as flags and env hold it; None for any other or a longer text."""
    if text is None or len(text) > _MAX_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def count(quantity: str | float | None) -> int:
    """Return `value`, or 0 for a missing or malformed quantity; `checks` reports a malformed one by its field path."""
    try:
        return 0 if quantity is None else value(quantity)
    except ValueError:
        return 0
