"""A Muster strategy for axolotl, and an example of how to write your own."""

from __future__ import annotations

from muster_strategy_axolotl.strategy import AxolotlStrategy

__all__ = ["AxolotlStrategy"]
