"""TRL: trainings with `trl <method>`, launched so that they span all nodes."""

from __future__ import annotations

from muster.strategies.frameworks.trl.trl_strategy import TRLStrategy

__all__ = ["TRLStrategy"]
