"""Members of documents whose shape nobody checked: what has another type than the reader wants counts as missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["items", "mapping", "mappings", "member", "sequence"]


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """Return a list; an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def member(document: Any, *names: str) -> Mapping[str, Any]:
    """Return the object inside others; an empty one where it, or one around it, is missing or something else."""
    found = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def items(document: Any, name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of an object."""
    return mappings(document.get(name)) if isinstance(document, dict) else []
