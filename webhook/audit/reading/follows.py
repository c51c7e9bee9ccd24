"""Read a log on while it is written: what is there, then each line as it comes, across rotation.

The file at hand is kept open, so that its last lines are read under whatever name it has by now; then the next newer
one is. Files that were taken away under their name, or cut to nothing (logrotate's `copytruncate`), are followed too.
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
"""Bytes of a line; one that is longer comes in pieces, which are no records."""
_BLOCK = 64 * 1024


def follow(paths: Sequence[Path], pause: Callable[[], None]) -> Iterator[LogLine]:
    """Read the logs at `paths`, with their rotated elders, and go on with what is written, for ever.

    Args:
        paths: of the logs.
        pause: called when nothing new is there; returns when it is worth looking again.

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
        """Read what has come since the last time; lines that have not ended are kept."""
        while True:
            newer = self._newer()
            if self._stream is not None:
                # Looked for before reading: what was written up to the rotation is there now.
                yield from self._come(self._stream)
            if newer is None:
                return
            if self._rest.strip():
                yield self._line(self._rest)
            self._open(newer)

    def close(self) -> None:
        """Let go of the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _newer(self) -> Path | None:
        """Return the file that follows the one at hand, the oldest at first; None while there is none."""
        listing = [path for path in files.rotated(self._path) if path.exists()]
        if self._stream is None:
            return listing[0] if listing else None
        at_hand = os.fstat(self._stream.fileno())
        for index, path in enumerate(listing):
            if _is(path, at_hand):
                self._was_newest = path == self._path
                return listing[index + 1] if index + 1 < len(listing) else None
        if self._was_newest:  # taken away by something else, or deleted: the next one gets its name
            return self._path if self._path in listing else None
        return listing[0] if listing else None

    def _open(self, path: Path) -> None:
        try:
            stream = path.open("rb")
        except FileNotFoundError:  # rotated at this moment; the next look finds it
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
