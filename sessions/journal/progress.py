"""Optimizer steps of models, for whoever looks how a run goes: the last ones, with their tokens and metrics."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["KEPT", "forgotten", "passed", "stepped"]

KEPT = 200
"""Steps of a model that are kept: the last ones."""
_JOINS: Mapping[str, Callable[[float, float], float]] = {"sum": operator.add, "min": min, "max": max}
_OPEN = "SELECT number, metrics FROM steps WHERE target = ? AND at IS NULL"
_NEXT = (
    "INSERT INTO steps (target, number, tokens, metrics)"
    " SELECT ?, coalesce(max(number), 0) + 1, 0, '{}' FROM steps WHERE target = ?"
)
_ADD = "UPDATE steps SET tokens = tokens + ?, metrics = ? WHERE target = ? AND number = ?"


def passed(connection: Any, target: str, tokens: int, metrics: Mapping[str, float]) -> int:
    """Add a pass to the step that a model has begun, and return the number of the step.

    Args:
        connection: of the journal, in a transaction.
        target: the model.
        tokens: of the pass.
        metrics: of the pass, by `NAME:REDUCTION`; those of the passes of a step become one.
    """
    row = connection.execute(_OPEN, (target,)).fetchone()
    if row is None:
        connection.execute(_NEXT, (target, target))
        row = connection.execute(_OPEN, (target,)).fetchone()
    both = _joined(json.loads(row["metrics"]), metrics)
    connection.execute(_ADD, (tokens, json.dumps(both), target, row["number"]))
    return int(row["number"])


def stepped(connection: Any, target: str, metrics: Mapping[str, float], now: float) -> None:
    """End a step with the metrics of its optimizer; a step without a pass counts as well."""
    number = passed(connection, target, 0, metrics)
    connection.execute("UPDATE steps SET at = ? WHERE target = ? AND number = ?", (now, target, number))
    connection.execute("DELETE FROM steps WHERE target = ? AND number <= ?", (target, number - KEPT))


def forgotten(connection: Any, target: str) -> None:
    """Drop a step that had begun: its gradients are gone."""
    connection.execute("DELETE FROM steps WHERE target = ? AND at IS NULL", (target,))


def _joined(before: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    """Return metrics of several passes as those of one; a reduction that cannot be joined has its last value."""
    joined = dict(before)
    for name, value in new.items():
        join = _JOINS.get(name.rpartition(":")[2])
        joined[name] = join(before[name], value) if join and name in before else value
    return joined
