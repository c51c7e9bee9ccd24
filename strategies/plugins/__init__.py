"""What a strategy is, and the registry that knows which strategy serves which framework."""

from __future__ import annotations

__all__: list[str] = []
