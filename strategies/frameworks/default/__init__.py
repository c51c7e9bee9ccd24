"""The strategy for every label that nobody claimed, and for none."""

from __future__ import annotations

from strategies.frameworks.default.strategy import DefaultStrategy

__all__ = ["DefaultStrategy"]
