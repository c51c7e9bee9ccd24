"""Follows a log while it is written: the existing lines, then each new one, across rotation.

The current file is kept open, so that its last lines are read even after it was renamed; then the next newer file is
opened. Files that were removed, or truncated (`copytruncate` of logrotate), are followed too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from webhook.audit.log import files
from webhook.audit.log.files import LogLine

__all__ = ["LONGEST", "LogFollower", "follow"]

LONGEST = 32 * 1024 * 1024
"""Maximum bytes of a line; a longer one is read in pieces, which are not records."""
_BLOCK = 64 * 1024


def follow(paths: Sequence[Path], pause: Callable[[], None]) -> Iterator[LogLine]:
    """Yield the lines of the logs at `paths` and their rotated files, then new lines, without end.

    Args:
        paths: the paths of the logs.
        pause: called when there are no new lines; returns when the logs should be checked again.

    Raises:
        OSError: a file cannot be read.
    """
    followers = [LogFollower(path) for path in paths]
    try:
        while True:
            for each in followers:
                yield from each.lines()
            pause()
    finally:
        for each in followers:
            each.close()


class LogFollower:
    """Follows one log; used by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: BinaryIO | None = None
        self._name = str(path)
        self._number = 0
        self._rest = b""
        self._was_newest = False

    def lines(self) -> Iterator[LogLine]:
        """Yield the lines since the last call; an incomplete line is kept for the next one."""
        while True:
            newer = self._newer()
            if self._stream is not None:
                # This comes before reading, so that all lines up to the rotation are read.
                yield from self._come(self._stream)
            if newer is None:
                return
            if self._rest.strip():
                yield self._line(self._rest)
            self._open(newer)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _newer(self) -> Path | None:
        """Return the file after the current one, at first the oldest; None while there is none."""
        listing = [path for path in files.rotated(self._path) if path.exists()]
        if self._stream is None:
            return listing[0] if listing else None
        at_hand = os.fstat(self._stream.fileno())
        for index, path in enumerate(listing):
            if _is(path, at_hand):
                self._was_newest = path == self._path
                return listing[index + 1] if index + 1 < len(listing) else None
        if self._was_newest:  # renamed by another program, or deleted: the next file gets its name
            return self._path if self._path in listing else None
        return listing[0] if listing else None

    def _open(self, path: Path) -> None:
        try:
            stream = path.open("rb")
        except FileNotFoundError:  # rotated at this moment; the next check finds it
            return
        self.close()
        self._stream, self._name, self._number, self._rest, self._was_newest = stream, str(path), 0, b"", False

    def _come(self, stream: BinaryIO) -> Iterator[LogLine]:
        if os.fstat(stream.fileno()).st_size < stream.tell():
            stream.seek(0)
            self._number, self._rest = 0, b""
        while block := stream.read(_BLOCK):
            *whole, rest = block.split(b"\n")
            for part in whole:
                yield from self._ended(self._rest + part)
                self._rest = b""
            self._rest += rest
            if len(self._rest) > LONGEST:
                yield self._line(self._rest)
                self._rest = b""

    def _ended(self, data: bytes) -> Iterator[LogLine]:
        line = self._line(data)
        if line.data.strip():
            yield line

    def _line(self, data: bytes) -> LogLine:
        self._number += 1
        return LogLine(self._name, self._number, data.rstrip(b"\r"))


def _is(path: Path, status: os.stat_result) -> bool:
    try:
        other = path.stat()
    except FileNotFoundError:
        return False
    return (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino)
