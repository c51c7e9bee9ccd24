"""The protocol of a strategy, and the registry of which strategy serves which framework."""

from __future__ import annotations

__all__: list[str] = []
