"""Limits: what a schema says about one value besides its type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.webhook.cli.schemas.shapes import Shape

__all__ = ["broken", "misfit"]

_CALLED = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "an integer"}
_INT32 = range(-(2**31), 2**31)
_QUANTITY = r"^(\+|-)?(([0-9]+"
_LONGEST = 1024  # characters of a text that a pattern is tried on; longer ones break another limit


def misfit(shape: Shape, value: Any) -> str:
    """Return the message for a value of the wrong type."""
    is_word = str in shape.types and isinstance(value, (bool, int, float))
    return f"must be {_called(shape)}{'; quote it' if is_word else ''}"


def _called(shape: Shape) -> str:
    if len(shape.types) > 1:
        return "an integer or a string" if str in shape.types else "a number"
    return _CALLED[shape.types[0]]


def broken(shape: Shape, value: Any) -> Iterator[str]:
    """Yield a message for each limit that a value of the right type breaks."""
    limits = shape.limits
    if "enum" in limits and value not in limits["enum"]:
        yield f"must be one of {', '.join(map(str, limits['enum']))}"
    if isinstance(value, (int, float)):
        yield from _number(limits, value)
    elif isinstance(value, str):
        yield from _text(shape, value)
    else:
        yield from _size(limits, value)


def _number(limits: dict[str, Any], value: float) -> Iterator[str]:
    if limits.get("format") == "int32" and value not in _INT32:
        yield "must fit in 32 bits"
    if value < limits.get("minimum", value):
        yield f"must be at least {limits['minimum']}"
    if value > limits.get("maximum", value):
        yield f"must be at most {limits['maximum']}"


def _text(shape: Shape, value: str) -> Iterator[str]:
    limits, pattern = shape.limits, shape.pattern
    if len(value) < limits.get("minLength", 0):
        yield "must not be empty" if limits["minLength"] == 1 else f"must have {limits['minLength']} characters or more"
    if len(value) > limits.get("maxLength", len(value)):
        yield f"must have at most {limits['maxLength']} characters"
    if pattern is not None and len(value) <= _LONGEST and not pattern.match(value):
        quantity = limits["pattern"].startswith(_QUANTITY)
        yield "is not a quantity such as 500m, 2 or 4Gi" if quantity else f"must match {limits['pattern']}"


def _size(limits: dict[str, Any], value: dict[str, Any] | list[Any]) -> Iterator[str]:
    few = "minItems" if isinstance(value, list) else "minProperties"
    if len(value) < limits.get(few, 0):
        yield f"must have at least {limits[few]} entr{'y' if limits[few] == 1 else 'ies'}"
    if len(value) > limits.get("maxItems", len(value)):
        yield f"must have at most {limits['maxItems']} entries"
