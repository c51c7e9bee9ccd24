"""Cases of a parametrised test, of which `make test` runs some: where they differ in data only, one stands for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

__all__ = ["but", "but_named"]


def but(*kept: Any, of: Iterable[Any], called: Callable[[Any], str] | None = None) -> list[Any]:
    """Return pytest's parameters for the values, of which all but the kept ones are marked thorough.

    Args:
        kept: what `make test` runs.
        of: all values.
        called: returns a value's id; by default pytest's own.

    Raises:
        ValueError: a kept value is not one of them.
    """
    values = list(of)
    return [_case(value, called(value) if called else None, value in kept) for value in _known(values, kept)]


def but_named(*kept: str, of: Mapping[str, Any]) -> list[Any]:
    """Do as `but` for values that have names, which become their ids.

    Args:
        kept: names of those that `make test` runs.
        of: all values by name.

    Raises:
        ValueError: a kept name is unknown.
    """
    _known(list(of), kept)
    return [_case(value, name, name in kept) for name, value in of.items()]


def _known(values: list[Any], kept: Iterable[Any]) -> list[Any]:
    if unknown := [each for each in kept if each not in values]:
        raise ValueError(f"case {unknown[0]!r} is unknown")
    return values


def _case(value: Any, name: str | None, is_kept: bool) -> Any:
    return pytest.param(value, id=name, marks=() if is_kept else pytest.mark.thorough)
