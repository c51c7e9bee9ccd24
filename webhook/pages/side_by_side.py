"""Two values side by side, line by line.

Values are written as YAML, like jobs: a command has one line for each word, so the changed words stand between equal
beginnings and ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile, zip_longest
from typing import Literal, NamedTuple

import orjson

from muster.webhook import kubeyaml

__all__ = ["MAX_LINES", "Side", "lines", "rows", "sides", "size"]

MAX_LINES = 400
"""Maximum number of lines of one value."""
_MAX_COLUMNS = 2000
_MAX_TEXT = 256 * 1024  # characters of a value that are written as lines


class Side(NamedTuple):
    """One line of each value; None when a value has no line there."""

    kind: Literal["same", "changed"]
    before: str | None
    after: str | None


def lines(value: object) -> list[str]:
    """Return a JSON value as lines, limited in number and length."""
    if size(value) > _MAX_TEXT:
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        value = f"{text[:_MAX_TEXT]}… (too large to be shown here; see the JSON)"
    try:
        every = kubeyaml.dump(value).removesuffix("\n").split("\n")
    except RecursionError:
        return ["(nested too deeply to be shown here; see the JSON)"]
    kept = [line if len(line) <= _MAX_COLUMNS else f"{line[:_MAX_COLUMNS]}…" for line in every[:MAX_LINES]]
    return [*kept, f"… {len(every) - MAX_LINES} more lines"] if len(every) > MAX_LINES else kept


def size(value: object) -> int:
    """Return the bytes of a value in JSON; 0 for one that is too deep to be measured."""
    try:
        return len(orjson.dumps(value))
    except TypeError:
        return 0


def rows(value: object) -> int:
    """Return about how many lines a value has, at most those that are shown of one with two sides."""
    try:
        raw = orjson.dumps(value)
    except TypeError:
        return 1
    return min(2 * MAX_LINES, sum(map(raw.count, (b",", b"{", b"[", b"\\n"))))


def sides(before: Sequence[str], after: Sequence[str]) -> Iterator[Side]:
    """Yield the lines of two values side by side; equal lines at the beginnings and ends share a row."""
    first = _alike(before, after)
    last = _alike(before[first:][::-1], after[first:][::-1])
    stop, end = len(before) - last, len(after) - last
    yield from (Side("same", line, line) for line in before[:first])
    yield from (Side("changed", *pair) for pair in zip_longest(before[first:stop], after[first:end]))
    yield from (Side("same", line, line) for line in before[stop:])


def _alike(before: Sequence[str], after: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
