"""Files on their way to the storage: hashed beside the write, begun before the last byte is there, flushed at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from muster_weights import hashes

__all__ = ["Stream", "flush", "written"]

_SMALL = 256 << 10  # bytes; below that, data is gathered first
_GATHERED = 1 << 20
_PIECE = 16 << 20


class Stream:
    """Bytes on their way to a file.

    What is given is read until the call returns and no longer, so that its memory may be used for something else then.

    Args:
        file: unbuffered.
        beside: a thread for the hash.

    Attributes:
        size: bytes that were given.
    """

    def __init__(self, file: BinaryIO, beside: ThreadPoolExecutor) -> None:
        self.size = 0
        self._file, self._beside = file, beside
        self._digest = hashes.new(hashes.BEST)
        self._gathered = bytearray()
        self._written = self._begun = 0

    def put(self, data: memoryview) -> None:
        """Add bytes."""
        self.size += len(data)
        if len(data) < _SMALL:
            self._gathered += data
            if len(self._gathered) < _GATHERED:
                return
        self._release()
        if len(data) >= _SMALL:
            self._emit(data)

    def end(self) -> str:
        """Write what is left, and return the hash; nothing may be added afterwards."""
        self._release()
        return str(self._digest.hexdigest())

    def fileno(self) -> int:
        """Return the number of the open file, for `flush`."""
        return self._file.fileno()

    def _release(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, bytearray()
            self._emit(memoryview(gathered))

    def _emit(self, data: memoryview) -> None:
        if len(data) <= _GATHERED:  # another thread would take longer to begin
            self._digest.update(data)
            self._write(data)
            return
        hashed = self._beside.submit(self._digest.update, data)
        try:
            for at in range(0, len(data), _PIECE):
                self._write(data[at : at + _PIECE])
        finally:
            hashed.result()

    def _write(self, data: memoryview) -> None:
        while len(data):
            count = self._file.write(data)
            data, self._written = data[count:], self._written + count
        if self._written - self._begun >= _PIECE:
            # Linux begins to write these pages out and does not wait. They stay in its cache, since they are not clean.
            os.posix_fadvise(self._file.fileno(), self._begun, self._written - self._begun, os.POSIX_FADV_DONTNEED)
            self._begun = self._written


@contextmanager
def written(path: Path) -> Iterator[Stream]:
    """Open a file for a `Stream`."""
    with ThreadPoolExecutor(1, "muster-hash") as beside, path.open("wb", buffering=0) as file:
        yield Stream(file, beside)


def flush(*handles: int) -> None:
    """Return when all of some open files and folders are on the storage.

    They are flushed at once, because a journal takes what comes together in one turn.
    """
    with ThreadPoolExecutor(len(handles), "muster-flush") as beside:
        for each in [beside.submit(os.fsync, handle) for handle in handles]:
            each.result()
