"""`python -m tools.chartvalues`: the table of values in the chart's README, made from values.yaml and its comments.

A value is described by the comment behind it, or by those above it; comments end at an empty line or at the next key.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = ["BEGIN", "END", "Value", "main", "readme", "values"]

CHART = Path(__file__).parents[1] / "manifests" / "chart"
BEGIN = "<!-- The table of values: `make chart-values` writes it from values.yaml. -->"
END = "<!-- The end of the table of values. -->"
_KEY = re.compile(r"( *)([A-Za-z0-9_]+):(?: (.*))?")
_INLINE = re.compile(r"(?:^|\s)# (.*)$")
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart.

    Attributes:
        path: its keys, with dots between.
        default: what it is by itself, as JSON; None for a group of values.
        text: what its comments say, "" where only its group has some.
    """

    path: str
    default: str | None
    text: str


def main() -> int:
    """Write the README with the table."""
    (CHART / "README.md").write_text(readme(), encoding="utf-8")
    return 0


def readme() -> str:
    """Return the README of the chart with the table as it must be."""
    text = (CHART / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return "\n".join((before + BEGIN, "", *_table(), "", END)) + rest.partition(END)[2]


def values(text: str) -> Iterator[Value]:
    """Yield the values of a values.yaml, groups before what is in them."""
    known, path, above = yaml.safe_load(text), list[tuple[int, str]](), list[str]()
    for line in text.splitlines():
        found = _KEY.fullmatch(line)
        if found is None:
            above = [*above, line.strip().removeprefix("#").removeprefix(" ")] if line.strip().startswith("#") else []
            continue
        indent, name, rest = len(found[1]), found[2], found[3] or ""
        path = [*(each for each in path if each[0] < indent), (indent, name)]
        comment = _INLINE.search(rest)
        is_group = not rest or rest.startswith("#")
        words = " ".join((*above, *([comment[1]] if comment else [])))
        yield Value(_dotted(path), None if is_group else _written(_at(known, path)), " ".join(words.split()))
        above = []


def _dotted(path: list[tuple[int, str]]) -> str:
    return ".".join(name for _, name in path)


def _at(known: Any, path: list[tuple[int, str]]) -> Any:
    for _, name in path:
        known = known[name]
    return known


def _written(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _table() -> Iterator[str]:
    yield "| value | default | what |"
    yield "|---|---|---|"
    for each in values((CHART / "values.yaml").read_text(encoding="utf-8")):
        if each.text:
            default = "" if each.default is None else f"`{each.default}`"
            yield f"| `{each.path}` | {_cell(default)} | {_cell(each.text)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
