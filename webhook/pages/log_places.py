"""Reads lines of logs by their place, from the newest back, while the logs are written and rotated.

A place is a byte of a file, and a file is identified by its first line: rotation changes its name, and copying the log
changes its inode. So a link to a record is valid until rotation deletes its file, and the cost of a page does not
depend on the length of the log.

Logs may come and go: those of all replicas on one volume, each in the folder of its pod. A pattern is looked up again
for each page. A log keeps its number while it exists, because links to records have it.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import itertools
import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from muster.audit import log_files

__all__ = ["LOGS", "Found", "GoneError", "LinePlace", "PatternShelf", "Shelf", "is_pattern"]

LOGS = 64
"""Maximum number of logs that are shown together; of more, those that were written last."""
_LOOKED_AT = 4_096  # files that match a pattern

_IDENTITY = 4096
_PLACE = re.compile(r"(\d{1,4})\.([0-9a-f]{16})\.(\d{1,18})")


class GoneError(LookupError):
    """The line does not exist, or no longer exists."""


@dataclass(frozen=True, slots=True)
class LinePlace:
    """The start of a line: the number of the log, the digest of the first line of the file, and the byte."""

    log: int
    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.log}.{self.file}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> LinePlace:
        """Parse a place; GoneError when the text is not one."""
        parts = _PLACE.fullmatch(text)
        if parts is None:
            raise GoneError(f"{text[:60]!r} is not a place in a log")
        return cls(int(parts[1]), parts[2], int(parts[3]))


@dataclass(frozen=True, slots=True)
class Found:
    """A line and its place; `data` is None when it is longer than `log_files.LONGEST`."""

    place: LinePlace
    path: Path
    data: bytes | None

    @property
    def weight(self) -> int:
        """The bytes that were read for it, at most `log_files.LONGEST`."""
        return log_files.LONGEST if self.data is None else len(self.data)


@dataclass(frozen=True, slots=True)
class _Opened:
    path: Path
    stream: BinaryIO
    file: str

    @property
    def size(self) -> int:
        return os.fstat(self.stream.fileno()).st_size


class Shelf:
    """Reads the logs at `paths`, each with its rotated files; no file stays open between two calls."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)

    def refresh(self) -> None:
        """Look for logs that came or went; here there are none."""

    def upwards(self, log: int, before: LinePlace | None = None) -> Iterator[Found]:
        """Yield the lines of a log back from its end, or from the line before a place.

        Raises:
            GoneError: while iterating, when the file of `before` was deleted.
            OSError: a file cannot be read.
        """
        reached = before is None
        for each in self._files(log):
            if not reached and before is not None and before.file != each.file:
                continue
            end = each.size if reached or before is None else min(before.offset, each.size)
            reached = True
            for offset, data in log_files.upwards(each.stream, end, log_files.LONGEST):
                yield Found(LinePlace(log, each.file, offset), each.path, data)
        if not reached:
            raise GoneError("the file in which this page began was deleted by rotation")

    def at(self, place: LinePlace) -> Found:
        """Read the line at a place.

        Raises:
            GoneError: the file was deleted, or no line begins there.
        """
        others = (log for log in range(len(self.paths)) if log != place.log)
        for log in (place.log, *others):  # a log has another number where others came or went meanwhile
            for each in self._files(log):
                if each.file == place.file:
                    return next(_lines(each, LinePlace(log, place.file, place.offset)))
        raise GoneError("the file with this record was deleted by rotation, or belongs to another log")

    def downwards(self, place: LinePlace) -> Iterator[Found]:
        """Yield the lines after the one at a place, oldest first, including newer files."""
        newer: list[str] = []
        for each in self._files(place.log):
            if each.file == place.file:
                yield from itertools.islice(_lines(each, place), 1, None)
                break
            newer.append(each.file)
        for file in reversed(newer):
            first = LinePlace(place.log, file, 0)
            yield from itertools.chain.from_iterable(
                _lines(each, first) for each in self._files(place.log) if each.file == file
            )

    def _files(self, log: int) -> Iterator[_Opened]:
        """Open the files of a log, newest first; a file that is rotated meanwhile is neither missed nor read twice."""
        if log >= len(self.paths):
            return
        last: tuple[int, int] | None = None
        while (path := _older(self._run(self.paths[log]), last)) is not None:
            try:
                stream = self._open(path)
            except FileNotFoundError:  # it was just renamed
                continue
            with stream:
                status = os.fstat(stream.fileno())
                yield _Opened(path, stream, hashlib.sha256(stream.readline(_IDENTITY)).hexdigest()[:16])
                last = (status.st_dev, status.st_ino)

    def _run(self, path: Path) -> list[Path]:
        """Return the files of a log, oldest first."""
        return log_files.rotated(path)

    def _open(self, path: Path) -> BinaryIO:
        return log_files.opened(path)


def is_pattern(name: str) -> bool:
    """Whether a name stands for the logs that match it; a file of that very name is none."""
    return glob.has_magic(name) and not os.path.lexists(name)


class PatternShelf(Shelf):
    """Reads the logs that match some patterns now; links among them are not followed.

    Args:
        patterns: paths with `*`, such as `/var/log/muster/*/audit.log`.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        super().__init__([])
        self._patterns = tuple(patterns)
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Look for new logs; a new one takes the number of one that is gone."""
        with self._lock:
            found = self._found()
            slots = [path if path in found else None for path in self.paths]
            new = iter([path for path in found if path not in self.paths])
            filled = [path or next(new, None) for path in slots]
            kept = [path or gone for path, gone in zip(filled, self.paths, strict=True)]
            self.paths = (*kept, *new)[:LOGS]

    def _found(self) -> list[Path]:
        # iglob takes absolute patterns and leaves out folders that cannot be read, which Path.glob does not.
        every = itertools.chain.from_iterable(glob.iglob(pattern) for pattern in self._patterns)  # noqa: PTH207 - as above
        paths = {Path(each) for each in itertools.islice(every, _LOOKED_AT)}
        newest = sorted(paths, key=lambda path: (-_written(path), str(path)))[:LOGS]
        return sorted(newest)

    def _run(self, path: Path) -> list[Path]:
        """Leave out links: whoever writes to the volume must not choose what of this machine is shown."""
        return [each for each in super()._run(path) if not each.is_symlink()]

    def _open(self, path: Path) -> BinaryIO:
        stream = super()._open(path)
        if not os.path.samestat(os.fstat(stream.fileno()), path.lstat()):
            stream.close()
            raise OSError(errno.ELOOP, "it was exchanged for a link", str(path))
        return stream


def _older(run: list[Path], last: tuple[int, int] | None) -> Path | None:
    """Return the next older file of a run after `last`, or the newest when `last` is None; None at the end."""
    reached = last is None
    for candidate, status in reversed(log_files.distinct(run)):
        if reached:
            return candidate
        reached = (status.st_dev, status.st_ino) == last
    return None


def _lines(each: _Opened, place: LinePlace) -> Iterator[Found]:
    """Yield the lines of a file from a place on; GoneError when no line begins there."""
    offset = place.offset
    if offset >= each.size or not _is_beginning(each.stream, offset):
        raise GoneError("no line begins at this place of the file")
    each.stream.seek(offset)
    while offset < each.size:
        data = each.stream.readline(log_files.LONGEST + 1)
        is_whole = len(data) <= log_files.LONGEST
        if not is_whole or data.strip():
            yield Found(LinePlace(place.log, each.file, offset), each.path, data.rstrip(b"\r\n") if is_whole else None)
        if not is_whole and not log_files.skipped(each.stream, data):
            return
        offset = each.stream.tell()


def _is_beginning(stream: BinaryIO, offset: int) -> bool:
    if offset == 0:
        return True
    stream.seek(offset - 1)
    return stream.read(1) == b"\n"


def _written(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
