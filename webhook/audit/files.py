"""Read the files of one audit log as a single run of lines, oldest first.

A log is spread over `audit.log` and its rotated elders `audit.log.1`, `audit.log.2` and so on, where the highest
number is the oldest. Whoever reads or verifies wants one sequence and still wants to be told in which file, on which
line, something is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Line", "last_lines", "lines", "numbered", "rotated"]

_BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log: `data` is without its end of line, `number` counts from 1 within `file`."""

    file: str
    number: int
    data: bytes


def rotated(path: Path) -> list[Path]:
    """List the existing files of the log at `path`, oldest first."""
    elders = [(int(elder.name.removeprefix(f"{path.name}.")), elder) for elder in _elders(path)]
    files = [elder for _, elder in sorted(elders, reverse=True)]
    return [*files, path] if path.exists() else files


def lines(paths: Iterable[Path]) -> Iterator[Line]:
    """Read files in the order given; OSError names the one that cannot be read."""
    for path in paths:
        with path.open("rb") as stream:
            yield from numbered(stream, str(path))


def numbered(stream: Iterable[bytes], name: str) -> Iterator[Line]:
    """Number the lines of an open binary stream, `sys.stdin.buffer` for instance; empty lines are passed over."""
    for number, data in enumerate(stream, start=1):
        if data.strip():
            yield Line(name, number, data.rstrip(b"\r\n"))


def last_lines(path: Path) -> Iterator[bytes]:
    """Read the lines of a file from its end, the last one first, without ends of line; empty ones are passed over."""
    with path.open("rb") as stream:
        position = stream.seek(0, os.SEEK_END)
        rest = b""
        while position:
            size = min(_BLOCK, position)
            position = stream.seek(position - size)
            rest, *whole = (stream.read(size) + rest).split(b"\n")
            yield from (line for line in reversed(whole) if line.strip())
        if rest.strip():
            yield rest


def _elders(path: Path) -> Iterator[Path]:
    prefix = f"{path.name}."
    for candidate in path.parent.iterdir():
        if candidate.name.startswith(prefix) and candidate.name.removeprefix(prefix).isdecimal():
            yield candidate
