"""Envelopes: what stands around the JSON that commands print, so that programs know which form they read.

Members are only ever added to a version. Where one is removed or changes its meaning, the version gets a new number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["listed", "schema"]


def schema(command: str) -> str:
    """Return the version of what a command prints: `muster.dev/check/v1`."""
    return f"muster.dev/{command}/v1"


def listed(command: str, items: Iterable[Any]) -> dict[str, Any]:
    """Return a list of things as one object with its version."""
    return {"schema": schema(command), "items": list(items)}
