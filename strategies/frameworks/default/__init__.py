"""The strategy for every framework without one of its own, and for jobs without a framework label."""

from __future__ import annotations

from muster.strategies.frameworks.default.default_strategy import DefaultStrategy

__all__ = ["DefaultStrategy"]
