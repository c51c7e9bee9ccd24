"""A folder that appears whole or not at all: written beside, flushed to the storage, then put in place by a rename."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from muster.sessions.refusals import NoSpace

__all__ = ["whole"]

_AT_ONCE = 8  # files that are flushed
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_HERE = -100  # AT_FDCWD of fcntl.h
_EXCHANGE = 2  # RENAME_EXCHANGE of linux/fs.h


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """Give a folder to write into, which is `folder` after the block; a block that raises leaves `folder` as it was.

    What was in `folder` before is gone afterwards. What a killed process left beside is taken away by the next one.

    Raises:
        NoSpace: when the storage is full.
    """
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*.partial"):
        shutil.rmtree(left, ignore_errors=True)
    # A name of its own: where the Gateway of another engine was taken for dead, both may write this folder.
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        _flush(partial)
        _put(partial, folder)
    except OSError as fault:
        if fault.errno in _FULL:
            raise NoSpace(f"weights: {folder.name}: the storage is full: delete checkpoints or extend it") from fault
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put(partial: Path, folder: Path) -> None:
    try:
        partial.rename(folder)
    except OSError as fault:
        if fault.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        _exchange(partial, folder)
    _sync(folder.parent)


def _exchange(partial: Path, folder: Path) -> None:
    """Swap two folders in one step, or in two where the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(partial), _HERE, os.fsencode(folder), _EXCHANGE) != 0:
        old = folder.with_name(f".{folder.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
        partial.rename(folder)
        shutil.rmtree(old, ignore_errors=True)


def _flush(folder: Path) -> None:
    """Flush a folder and its files at once: a journal takes what comes together in one turn."""
    wanted = [folder, *folder.iterdir()]
    with ThreadPoolExecutor(min(_AT_ONCE, len(wanted))) as beside:
        list(beside.map(_sync, wanted))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
