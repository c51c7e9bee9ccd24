"""Measures costs. `make bench` prints them; docs/internals/performance.md holds a run with its machine.

A shared machine is noisy: figures are medians of rounds that take turns, with the spread beside them.
"""

from __future__ import annotations

__all__: list[str] = []
