"""Reads the files of one audit log as one sequence of lines, oldest first.

A log consists of `audit.log` and its rotated files `audit.log.1`, `audit.log.2` and so on; the one with the highest
number is the oldest. Readers get one sequence, and the file and number of each line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["LogLine", "last_lines", "lines", "numbered", "rotated", "upwards"]

_BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log: `data` does not include the end of line, `number` counts from 1 within `file`."""

    file: str
    number: int
    data: bytes


def rotated(path: Path) -> list[Path]:
    """List the existing files of the log at `path`, oldest first."""
    elders = [(int(elder.name.removeprefix(f"{path.name}.")), elder) for elder in _elders(path)]
    files = [elder for _, elder in sorted(elders, reverse=True)]
    return [*files, path] if path.exists() else files


def lines(paths: Iterable[Path]) -> Iterator[LogLine]:
    """Read files in the order given; OSError names the one that cannot be read."""
    for path in paths:
        with path.open("rb") as stream:
            yield from numbered(stream, str(path))


def numbered(stream: Iterable[bytes], name: str) -> Iterator[LogLine]:
    """Number the lines of an open binary stream, `sys.stdin.buffer` for instance; empty lines are skipped."""
    for number, data in enumerate(stream, start=1):
        if data.strip():
            yield LogLine(name, number, data.rstrip(b"\r\n"))


def last_lines(path: Path) -> Iterator[bytes]:
    """Read the lines of a file from its end, the last one first, without ends of line; empty ones are skipped."""
    with path.open("rb") as stream:
        for _, data in upwards(stream, stream.seek(0, os.SEEK_END)):
            if data is not None:
                yield data


def upwards(stream: BinaryIO, end: int, longest: int | None = None) -> Iterator[tuple[int, bytes | None]]:
    """Read the lines before byte `end` of a file, the last one first; empty ones are skipped.

    Args:
        stream: an open file; its position changes.
        end: byte at which a line ends or begins.
        longest: maximum bytes of a line that are kept in memory; no limit by default.

    Yields:
        The byte at which a line begins, and the line without its end, or None for one that is too long.
    """
    parts: list[bytes] = []
    size, position = 0, end
    while position:
        block, position = _block_before(stream, position)
        rest = len(block)
        while (cut := block.rfind(b"\n", 0, rest)) >= 0:
            line = _joined(block[cut + 1 : rest], parts, size, longest)
            if line is None or line.strip():
                yield position + cut + 1, line
            parts, size, rest = [], 0, cut
        size += rest
        parts.append(block[:rest])
        if longest is not None and size > longest:
            parts.clear()
    line = _joined(b"", parts, size, longest)
    if line is None or line.strip():
        yield 0, line


def _block_before(stream: BinaryIO, position: int) -> tuple[bytes, int]:
    size = min(_BLOCK, position)
    stream.seek(position - size)
    return stream.read(size), position - size


def _joined(first: bytes, parts: list[bytes], size: int, longest: int | None) -> bytes | None:
    """Join the parts of a line, which come in reverse order."""
    if longest is not None and size + len(first) > longest:
        return None
    return b"".join([first, *reversed(parts)])


def _elders(path: Path) -> Iterator[Path]:
    prefix = f"{path.name}."
    for candidate in path.parent.iterdir():
        if candidate.name.startswith(prefix) and candidate.name.removeprefix(prefix).isdecimal():
            yield candidate
