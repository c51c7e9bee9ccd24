"""Sinks: where lines are written, a stream that is collected or a file that is rotated.

A sink either writes a whole line or raises, and after an error it starts afresh: the writer depends on this to keep
chain and file consistent. So a file sink removes the part of a line that a full disk has accepted, ends a line that a
crash has torn, and holds a lock, because two processes that append to one chain would break it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from muster.audit import log_files

__all__ = ["RotatingFileSink", "Sink", "StreamSink"]

_OWNER_ONLY = 0o600


class Sink(Protocol):
    """Takes lines; used by one thread at a time.

    Attributes:
        name: of the place.
        is_kept: whether a later process continues what is there.
    """

    name: str
    is_kept: bool

    def damage(self) -> str:
        """Return what befell the lines written before, "" for nothing; the same until the next line is written."""

    def write(self, line: bytes) -> None:
        """Write `line`, which includes its end of line; OSError when it could not be written completely."""

    def last_lines(self) -> Iterator[bytes]:
        """Yield the existing lines, the last one first; none when the sink cannot be read."""

    def close(self) -> None:
        """Release all resources; a later `write` acquires them again."""


class StreamSink:
    """Writes to an open descriptor, stdout by default, without Python's buffers."""

    is_kept = False

    def __init__(self, descriptor: int = 1, name: str = "stdout") -> None:
        self.name = name
        self._descriptor = descriptor
        self._torn = False

    def damage(self) -> str:
        """Return "": nobody takes back what a stream has taken."""
        return ""

    def write(self, line: bytes) -> None:
        """Write a line; first end a line that an earlier error has torn."""
        data = b"\n" + line if self._torn else line
        written = 0
        try:
            while written < len(data):
                written += _put(self._descriptor, data[written:], self.name)
        except OSError:
            self._torn = self._torn or written > 0
            raise
        self._torn = False

    def last_lines(self) -> Iterator[bytes]:
        """Yield nothing: a stream cannot be read back."""
        return iter(())

    def close(self) -> None:
        """Do nothing: the descriptor belongs to the process and stays open."""


class RotatingFileSink:
    """Appends to `path`; a file that would outgrow `max_bytes` becomes `path.1`, that one `path.2`, up to `backups`.

    Files are only readable by their owner. The directory must exist. While another process holds `path.lock`, writing
    raises BlockingIOError.
    """

    is_kept = True

    def __init__(self, path: Path, max_bytes: int = 64 * 1024 * 1024, backups: int = 5) -> None:
        if max_bytes < 1 or backups < 1:
            raise ValueError(f"audit file {path}: max_bytes ({max_bytes}) and backups ({backups}) must be at least 1")
        self.name = str(path)
        self._path = path
        self._max_bytes = max_bytes
        self._backups = backups
        self._lock: int | None = None
        self._file: int | None = None
        self._written: os.stat_result | None = None  # the file as the last line left it
        self._line = b""  # the last line

    def damage(self) -> str:
        """Return "truncated", "removed" or "replaced".

        A file is whole that was renamed as rotation does, or truncated behind a copy with all lines (`copytruncate`).
        """
        if self._written is None:
            return ""
        there = self._path.stat() if self._path.exists() else None
        if there and os.path.samestat(there, self._written):
            return "truncated" if there.st_size < self._written.st_size and not self._is_copied() else ""
        listing = log_files.distinct(log_files.rotated(self._path))
        if any(os.path.samestat(status, self._written) for _, status in listing):
            return ""
        return "replaced" if there else "removed"

    def _is_copied(self) -> bool:
        """Whether the file before this one ends with the last line."""
        newest = log_files.rotated(self._path)[-2:-1]
        return any(next(log_files.last_lines(each), b"") + b"\n" == self._line for each in newest)

    def write(self, line: bytes) -> None:
        """Append a line, and rotate the files first when that is due."""
        file, size = self._current()
        if size and size + len(line) > self._max_bytes:
            self._rotate()
            file, size = self._current()
        try:
            written = 0
            while written < len(line):
                written += _put(file, line[written:], self.name)
        except OSError:
            # What could not be written completely must not remain in part.
            with contextlib.suppress(OSError):
                os.ftruncate(file, size)
            self._release()
            raise
        self._written, self._line = os.fstat(file), line

    def last_lines(self) -> Iterator[bytes]:
        """Yield the lines of this log from its end, including rotated files."""
        self._current()
        room = log_files.FARTHEST
        for path in reversed(log_files.rotated(self._path)):
            yield from log_files.last_lines(path)
            room -= path.stat().st_size
            if room < 0:
                return

    def close(self) -> None:
        """Close the file and release the lock."""
        self._release()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _current(self) -> tuple[int, int]:
        """Return the open file and its size; a file that was removed or renamed is created again."""
        self._acquire()
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError):
                there, ours = self._path.stat(), os.fstat(self._file)
                if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                    return self._file, ours.st_size
            self._release()
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
        try:
            size = _mended(file, self.name)
        except OSError:
            os.close(file)
            raise
        self._file = file
        return file, size

    def _acquire(self) -> None:
        if self._lock is not None and self._is_there(self._lock):
            return
        self.close()
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise type(error)(error.errno, "another process writes this audit log", self.name) from error
        self._lock = lock

    def _is_there(self, lock: int) -> bool:
        """Whether the lock is still the file of that name: a folder that is made again has another one."""
        try:
            return os.path.samestat(Path(f"{self._path}.lock").stat(), os.fstat(lock))
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        self._release()
        for elder in log_files.rotated(self._path):
            number = int(elder.suffix[1:]) if elder != self._path else 0
            if number < self._backups:
                elder.replace(f"{self._path}.{number + 1}")
            else:
                elder.unlink()

    def _release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _put(descriptor: int, data: bytes, name: str) -> int:
    """Write at least one byte of `data`; OSError when none is taken, so that nobody tries for ever."""
    written = os.write(descriptor, data)
    if not written:
        raise OSError(errno.EIO, "nothing was written", name)
    return written


def _mended(file: int, name: str) -> int:
    """End a line that a crash has torn, so that the next one is complete; return the size."""
    status = os.fstat(file)
    if stat.S_ISFIFO(status.st_mode):
        raise OSError(errno.EINVAL, "this is a pipe, which blocks while nobody reads it; remove it", name)
    size = status.st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
        size += 1
    return size
