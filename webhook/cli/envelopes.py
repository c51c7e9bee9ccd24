"""Envelopes: which form, and which version of it, the JSON that commands print has.

Members are only ever added to a version. Where one is removed or changes its meaning, the version gets a new number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["listed", "schema"]


def schema(command: str) -> str:
    """Return the version of what a command prints: `muster.dev/check/v1`."""
    return f"muster.dev/{command}/v1"


def listed(command: str, items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the items of a list, each with its version."""
    return [{"schema": schema(command), **each} for each in items]
