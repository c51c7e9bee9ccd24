"""The environment variables of the trainer's side, with their limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster_weights.refusals import Refused

__all__ = ["FOLDER", "Settings", "settings"]

FOLDER = "MUSTER_WEIGHTS_FOLDER"


@dataclass(frozen=True, slots=True)
class Settings:
    """How weights travel.

    Attributes:
        folder: on a volume that trainer and sampler see; the paths may differ.
        deadline: seconds for which a sampler that is away is tried again.
        lease: seconds after which a sampler goes on without this trainer.
        keep: versions that stay in the folder.
        bound: mean difference of log probabilities that is too large; None for that of the sampler's type.
        patience: how many times in a row it must be too large.
    """

    folder: Path
    deadline: float = 600.0
    lease: float = 60.0
    keep: int = 2
    bound: float | None = None
    patience: int = 3


def settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the environment. Raises `Refused` for a variable with a value that it cannot have."""
    folder = Path(environment.get(FOLDER, ""))
    if not folder.is_absolute():
        raise Refused(
            f"{FOLDER}: {str(folder)[:200]!r} is not an absolute path: set it to a folder of the shared volume"
        )
    return Settings(
        folder,
        _number(environment, "MUSTER_WEIGHTS_DEADLINE", 600.0, (1, 86400)),
        _number(environment, "MUSTER_WEIGHTS_LEASE", 60.0, (1, 3600)),
        int(_number(environment, "MUSTER_WEIGHTS_KEEP", 2, (2, 1000))),
        _bound(environment),
        int(_number(environment, "MUSTER_WEIGHTS_PATIENCE", 3, (1, 1000))),
    )


def _bound(environment: Mapping[str, str]) -> float | None:
    name = "MUSTER_WEIGHTS_BOUND"
    return _number(environment, name, 0.0, (1e-9, 100)) if environment.get(name) else None


def _number(environment: Mapping[str, str], name: str, default: float, limits: tuple[float, float]) -> float:
    low, high = limits
    try:
        value = float(environment.get(name) or default)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise Refused(
            f"{name}: {environment[name][:40]!r} is not a number of {low:g} to {high:g}: correct or remove it"
        )
    return value
