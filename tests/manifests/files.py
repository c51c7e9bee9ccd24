"""Where our manifests lie, and how the tests read them: documents, and the comment that each file opens with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

__all__ = ["EXAMPLES", "RUNTIMES", "documents", "header", "runtimes"]

FOLDER = Path(__file__).parents[2] / "manifests"
RUNTIMES = sorted(path for path in (FOLDER / "runtimes").glob("*.yaml") if path.name != "kustomization.yaml")
EXAMPLES = sorted((FOLDER / "examples").glob("*.yaml"))


def documents(path: Path) -> list[Any]:
    """Return the documents of a file, in order."""
    return list(yaml.safe_load_all(path.read_text()))


def header(path: Path) -> str:
    """Return the comment at the head of a file, without its marks, as one line."""
    lines = path.read_text().splitlines()
    until = next(index for index, line in enumerate(lines) if not line.startswith("#"))
    return " ".join(line.removeprefix("#").strip() for line in lines[:until])


def runtimes() -> Mapping[str, Any]:
    """Return our runtimes by name."""
    return {document["metadata"]["name"]: document for path in RUNTIMES for document in documents(path)}
