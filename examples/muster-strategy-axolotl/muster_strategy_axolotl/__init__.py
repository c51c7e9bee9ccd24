"""A Muster strategy for axolotl, and an example of how to bring one of your own."""

from __future__ import annotations

from muster_strategy_axolotl.strategy import AxolotlStrategy

__all__ = ["AxolotlStrategy"]
