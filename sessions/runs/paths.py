"""Paths of weights, `tinker://RUN/KIND/NAME`, and the folders that they stand for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from muster.sessions.seam import Refused

__all__ = ["Checkpoint", "checked", "folder_of", "parsed"]

Kind = Literal["weights", "sampler_weights", "external_weights"]
_KINDS: dict[str, Kind] = {
    "weights": "weights",
    "sampler_weights": "sampler_weights",
    "external_weights": "external_weights",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights that have a name."""

    run: str
    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"tinker://{self.run}/{self.kind}/{self.name}"


def checked(name: str) -> str:
    """Return a name of weights. Raises `Refused` for one that is not a name of a file."""
    if not _NAME.fullmatch(name):
        told = "use letters, digits, dots, dashes and underscores, at most 128, and begin with a letter or digit"
        raise Refused(f"path: {name[:60]!r} is not a name of weights; {told}")
    return name


def parsed(path: str) -> Checkpoint:
    """Return what a path names. Raises `Refused` when it is none."""
    scheme, _, rest = path.partition("://")
    parts = rest.split("/")
    if scheme != "tinker" or len(parts) != 3 or parts[1] not in _KINDS:
        raise Refused(
            f"path: {path[:100]!r} is not of the form tinker://RUN/weights/NAME; sampler_weights and external_weights"
            " may stand for weights"
        )
    return Checkpoint(parts[0], _KINDS[parts[1]], checked(parts[2]))


def folder_of(root: Path, run: str, *below: str) -> Path:
    """Return a folder for something of a run; ids hold colons, which stay readable and cannot leave the root."""
    return root.joinpath(quote(run, safe="-_"), *below)
