"""Judgements: survivors that somebody looked at and found to be no faults, with the reason.

They are known by the lines that change, not by file and number, so that they outlive a move. TOML: a table
`[[equivalent]]` with `before`, `after` (lines without their indentation) and `why`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["PLACE", "Known", "load", "why"]

PLACE = Path(__file__).parent / "equivalents.toml"
"""Where the judgements are."""

Known = Mapping[tuple[tuple[str, ...], tuple[str, ...]], str]
"""The reason by the lines that go and those that come."""


def load(place: Path) -> Known:
    """Read judgements."""
    read = tomllib.loads(place.read_text())
    return {(_bare(each["before"]), _bare(each["after"])): each["why"] for each in read.get("equivalent", [])}


def why(known: Known, difference: Sequence[str]) -> str | None:
    """Return why a difference is not a fault, or None where nobody said so."""
    went = "\n".join(line[1:] for line in difference if line.startswith("-"))
    came = "\n".join(line[1:] for line in difference if line.startswith("+"))
    return known.get((_bare(went), _bare(came)))


def _bare(lines: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in lines.splitlines() if line.strip())
