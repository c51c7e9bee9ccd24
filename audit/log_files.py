"""Reads the files of one audit log as one sequence of lines, oldest first.

A log consists of `audit.log` and its rotated files `audit.log.1`, `audit.log.2` and so on; the one with the highest
number is the oldest. Readers get one sequence, and the file and number of each line. A log may come from a volume on
which others write: a line has no length that must be believed, and a name may be that of a pipe, a device or a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

__all__ = [
    "FARTHEST",
    "FILES",
    "LONGEST",
    "LogLine",
    "Readable",
    "distinct",
    "endless",
    "last_lines",
    "lines",
    "numbered",
    "opened",
    "rotated",
    "skipped",
    "upwards",
]

LONGEST = 32 * 1024 * 1024
"""Maximum bytes of a line that are kept; a record has about 1 MiB at most, so a longer line is none."""
FARTHEST = 256 * 1024 * 1024
"""Maximum bytes in which an end of line is searched for: a file with holes has more of them than any disk."""
FILES = 2000
"""Maximum number of files of a log that can be followed or browsed; `backups` is at most 1000."""

_BLOCK = 64 * 1024
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Readable(Protocol):
    """An open binary stream, of which only lines are read."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or `size` bytes of it; nothing at the end."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log: `number` counts from 1 within `file`.

    `data` does not include the end of line; it is None for a line longer than `LONGEST`, and empty only at the end of a
    file, for all the lines that are empty there.
    """

    file: str
    number: int
    data: bytes | None


def rotated(path: Path) -> list[Path]:
    """List the files of the log at `path`, oldest first; a link that leads nowhere is one too."""
    elders = [(int(elder.name.removeprefix(f"{path.name}.")), elder) for elder in _elders(path)]
    files = [elder for _, elder in sorted(elders, reverse=True)]
    return [*files, path] if os.path.lexists(path) else files


def distinct(paths: Sequence[Path]) -> list[tuple[Path, os.stat_result]]:
    """Return those of `paths` that exist, with their status: of several names of one file, only the last.

    Raises:
        OSError: one cannot be looked at, or there are more than `FILES`.
    """
    if len(paths) > FILES:
        message = f"the log has {len(paths)} files, more than {FILES}; move the oldest to another folder"
        raise OSError(errno.EFBIG, message, str(paths[-1]))
    found: dict[tuple[int, int], tuple[Path, os.stat_result]] = {}
    for path in reversed(paths):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            found.setdefault((status.st_dev, status.st_ino), (path, status))
    return [*reversed(found.values())]


def opened(path: Path) -> BinaryIO:
    """Open a file to read.

    Raises:
        OSError: it cannot be read, or is a folder, a pipe or a device, of which some block and some never end.
    """
    _check(path, path.stat().st_mode)  # to open a device may already do something
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def lines(paths: Iterable[Path]) -> Iterator[LogLine]:
    """Read files in the order given; OSError names the one that cannot be read."""
    for path in paths:
        with opened(path) as stream:
            yield from numbered(stream, str(path))


def numbered(stream: Readable, name: str) -> Iterator[LogLine]:
    """Number the lines of an open binary stream, `sys.stdin.buffer` for instance; empty lines are skipped.

    Raises:
        OSError: a line does not end within `FARTHEST`.
    """
    number, last = 0, b""
    while data := stream.readline(LONGEST + 1):
        number, last = number + 1, data.strip()
        if len(data) > LONGEST:
            if not skipped(stream, data):
                raise endless(name, number)
            yield LogLine(name, number, None)
        elif last:
            yield LogLine(name, number, data.rstrip(b"\r\n"))
    if number and not last:
        yield LogLine(name, number, b"")


def skipped(stream: Readable, data: bytes) -> bool:
    """Read on to the end of a line that begins with `data`; False when there is none within `FARTHEST`."""
    size = len(data)
    while data and not data.endswith(b"\n"):
        data = stream.readline(_BLOCK)
        size += len(data)
        if size > FARTHEST:
            return False
    return True


def endless(name: str, number: int) -> OSError:
    """Return the error of a line that does not end."""
    message = f"line {number} has more than {FARTHEST >> 20} MiB; Muster did not write it: remove it and read again"
    return OSError(errno.EFBIG, message, name)


def last_lines(path: Path) -> Iterator[bytes]:
    """Read the lines of a file from its end, the last one first, without ends of line; empty ones are skipped.

    Only the last `FARTHEST` bytes are read, and of a line longer than `LONGEST` only a mark is returned.
    """
    with opened(path) as stream:
        end = stream.seek(0, os.SEEK_END)
        for begin, data in upwards(stream, end, LONGEST):
            yield b"(a line that is too long)" if data is None else data
            if end - begin > FARTHEST:
                return


def upwards(stream: BinaryIO, end: int, longest: int) -> Iterator[tuple[int, bytes | None]]:
    """Read the lines before byte `end` of a file, the last one first; empty ones are skipped.

    Args:
        stream: an open file; its position changes.
        end: byte at which a line ends or begins.
        longest: maximum bytes of a line that are kept in memory.

    Yields:
        The byte at which a line begins, and the line without its end, or None for one that is too long. A line longer
        than `FARTHEST` comes in several parts, each None, so that the reader can stop.
    """
    parts: list[bytes] = []
    size, position, told = 0, end, end
    while position:
        block, position = _block_before(stream, position)
        rest = len(block)
        while (cut := block.rfind(b"\n", 0, rest)) >= 0:
            line = _joined(block[cut + 1 : rest], parts, size, longest)
            told = position + cut + 1
            if line is None or line.strip():
                yield told, line
            parts, size, rest = [], 0, cut
        size += rest
        parts.append(block[:rest])
        if size > longest:
            parts.clear()
        if position and told - position > FARTHEST:
            told = position
            yield told, None
    line = _joined(b"", parts, size, longest)
    if line is None or line.strip():
        yield 0, line


def _block_before(stream: BinaryIO, position: int) -> tuple[bytes, int]:
    size = min(_BLOCK, position)
    stream.seek(position - size)
    return stream.read(size), position - size


def _joined(first: bytes, parts: list[bytes], size: int, longest: int) -> bytes | None:
    """Join the parts of a line, which come in reverse order."""
    if size + len(first) > longest:
        return None
    return b"".join([first, *reversed(parts)])


def _elders(path: Path) -> Iterator[Path]:
    prefix = f"{path.name}."
    for candidate in path.parent.iterdir():
        if candidate.name.startswith(prefix) and candidate.name.removeprefix(prefix).isdecimal():
            yield candidate


def _check(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise OSError(errno.EINVAL, f"it is {what} and not a regular file; copy the log into one", str(path))
