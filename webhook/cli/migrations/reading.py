"""Reading: members of a document that nobody has checked; a wrong type ends the migration of the document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.webhook.cli.migrations.notes import Unmigrated, path

__all__ = ["field", "integer", "objects", "section", "string"]

_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a number"}


def section(value: Mapping[str, Any], *at: str) -> dict[str, Any]:
    """Return an object inside of another; {} where there is none."""
    found: Any = value
    for depth, name in enumerate(at, 1):
        found = _typed(found.get(name), dict, at[:depth]) or {}
    return dict(found)


def field(value: Mapping[str, Any], wanted: type, *at: str) -> Any:
    """Return a member of a type; None where there is none."""
    return _typed(section(value, *at[:-1]).get(at[-1]), wanted, at)


def string(value: Mapping[str, Any], *at: str) -> str:
    """Return a text; "" where there is none."""
    return field(value, str, *at) or ""


def integer(value: Mapping[str, Any], *at: str, default: int) -> int:
    """Return a number."""
    found: int | None = field(value, int, *at)
    return default if found is None else found


def objects(value: Any, at: str) -> list[dict[str, Any]]:
    """Return a list of objects; [] where there is none."""
    found = _typed(value, list, (at,)) or []
    for number, each in enumerate(found):
        if not isinstance(each, dict):
            raise Unmigrated(f"{at}[{number}]: must be an object; correct it, then migrate")
    return list(found)


def _typed(value: Any, wanted: type, at: tuple[str, ...]) -> Any:
    if value is not None and (not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))):
        raise Unmigrated(f"{path(at)}: must be {_NAMES[wanted]}; correct it, then migrate")
    return value
