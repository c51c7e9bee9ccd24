"""Follows a log while it is written: the existing lines, then each new one, across rotation.

The current file is kept open, so that its last lines are read even after it was renamed; then the next newer file is
opened. Files that were removed, or truncated (`copytruncate` of logrotate), are followed too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias

from muster.audit import log_files
from muster.audit.log_files import LogLine

__all__ = ["LogFollower", "follow"]

_BLOCK = 64 * 1024
_File: TypeAlias = tuple[Path, os.stat_result]


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
        self._rest = _Rest()
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
            yield from self._ended()
            self._open(*newer)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _newer(self) -> _File | None:
        """Return the file after the current one, at first the oldest; None while there is none."""
        listing = log_files.distinct(log_files.rotated(self._path))
        if self._stream is None:
            return listing[0] if listing else None
        at_hand = os.fstat(self._stream.fileno())
        for index, (path, status) in enumerate(listing):
            if os.path.samestat(status, at_hand):
                self._was_newest = path == self._path
                return listing[index + 1] if index + 1 < len(listing) else None
        if self._was_newest:  # renamed by another program, or deleted: the next file gets its name
            return listing[-1] if listing and listing[-1][0] == self._path else None
        return listing[0] if listing else None

    def _open(self, path: Path, status: os.stat_result) -> None:
        try:
            stream = log_files.opened(path)
        except FileNotFoundError:  # rotated at this moment; the next check finds it
            return
        if not os.path.samestat(os.fstat(stream.fileno()), status):  # rotated too: another file has the name now
            stream.close()
            return
        self.close()
        self._stream, self._name, self._number, self._rest, self._was_newest = stream, str(path), 0, _Rest(), False

    def _come(self, stream: BinaryIO) -> Iterator[LogLine]:
        if os.fstat(stream.fileno()).st_size < stream.tell():
            stream.seek(0)
            self._number, self._rest = 0, _Rest()
        while block := stream.read(_BLOCK):
            *whole, rest = block.split(b"\n")
            for part in whole:
                self._rest.add(part)
                yield from self._ended()
            self._rest.add(rest)
            if self._rest.size > log_files.FARTHEST:
                raise log_files.endless(self._name, self._number + 1)

    def _ended(self) -> Iterator[LogLine]:
        data, self._rest = self._rest.whole(), _Rest()
        self._number += 1
        if data is None or data.strip():
            yield LogLine(self._name, self._number, data)


class _Rest:
    """The beginning of a line whose end is not there yet; of a line that is too long, only its size."""

    def __init__(self) -> None:
        self.size = 0
        self._data = bytearray()

    def add(self, part: bytes) -> None:
        self.size += len(part)
        if self.size <= log_files.LONGEST:
            self._data.extend(part)
        else:
            self._data.clear()

    def whole(self) -> bytes | None:
        return bytes(self._data).rstrip(b"\r") if self.size <= log_files.LONGEST else None
