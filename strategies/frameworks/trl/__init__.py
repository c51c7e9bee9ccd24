"""TRL: the trainings that `trl <method>` names, launched so that they span the nodes."""

from __future__ import annotations

from strategies.frameworks.trl.strategy import TRLStrategy

__all__ = ["TRLStrategy"]
