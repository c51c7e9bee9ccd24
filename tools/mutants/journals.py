"""Journals: results as they come, so that a run can go on where one ended, and survivors can be tried again alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from tools.mutants.mutations import Mutant
from tools.mutants.trials import Outcome, Result

__all__ = ["note", "read"]


def note(place: Path, result: Result) -> None:
    """Add a result."""
    written = dataclasses.asdict(result) | {"outcome": result.outcome.value}
    with place.open("a") as file:
        file.write(json.dumps(written) + "\n")


def read(place: Path) -> dict[Mutant, Result]:
    """Return the last result of each mutant; nothing where there is no journal."""
    lines = place.read_text().splitlines() if place.exists() else []
    results = [_result(json.loads(line)) for line in lines]
    return {result.mutant: result for result in results}


def _result(written: dict[str, Any]) -> Result:
    members: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written["mutant"].items()
    }
    changed: dict[str, Any] = {"mutant": Mutant(**members), "outcome": Outcome(written["outcome"])}
    return Result(**{**written, **changed})
