"""Versions read and verified: no link is followed, so that no request leads out of the folder.

A version stays open after it was verified, and is mapped into memory, so that it is loaded without a second copy; that
its file did not change meanwhile is seen by its inode and times.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster_weights import hashes, manifests, names
from muster_weights.refusals import Missing, Refused

__all__ = ["Verified", "current", "verify"]

_PIECE = 256 << 20
_LARGE = 8 << 20  # bytes, from which on threads are worth their start
_THREADS = min(4, len(os.sched_getaffinity(0)))  # they also fetch the pages; the other cores are for the serving
_NO_LINKS = (errno.ELOOP, errno.ENOTDIR)
_Identity = tuple[int, int, int, int]


@dataclass(slots=True)
class Verified:
    """A version whose bytes are what its trainer wrote.

    Attributes:
        told: which.
        manifest: where each tensor lies in `data`.
        data: the file, mapped; writing into it changes no file.
    """

    told: names.Told
    manifest: manifests.Manifest
    data: mmap.mmap
    _handle: int
    _identity: _Identity

    def unchanged(self) -> bool:
        """Whether nobody wrote into the file since it was verified."""
        return _identity(self._handle) == self._identity

    def close(self) -> None:
        """Close the file; the mapping goes with the last tensor that lies in it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def verify(root: Path, told: names.Told) -> Verified:
    """Open a version and compare all of it with what its trainer told.

    Raises:
        Missing: where it cannot be seen.
        Refused: where it is another's, torn, or was changed.
    """
    with _folder(root, told) as folder:
        manifest = _manifest(folder, told)
        handle = _file(folder, names.DATA)
    try:
        return _compared(told, manifest, handle)
    except BaseException:
        os.close(handle)
        raise


def current(root: Path) -> names.Told | None:
    """Return which version was served last, or None where nobody noted it. Raises `Refused` for what is no note."""
    try:
        with _opened(_top(root)) as folder:
            return names.told(json.loads(_read(folder, names.CURRENT, 4096)))
    except Missing:
        return None
    except (ValueError, RecursionError) as fault:
        raise Refused(f"{names.CURRENT}: cannot be read ({str(fault)[:200]}): remove it") from fault


def _compared(told: names.Told, manifest: manifests.Manifest, handle: int) -> Verified:
    identity = _identity(handle)
    if identity[1] != manifest.size:
        found = f"{names.DATA} has {identity[1]} bytes, not {manifest.size}"
        raise Refused(f"{told.text}: {found}: it is torn; publish it again")
    data = mmap.mmap(handle, manifest.size, access=mmap.ACCESS_COPY)
    if _hash(data, manifest.hash) != manifest.value:
        raise Refused(f"{told.text}: {names.DATA} is not what the trainer wrote (its hash differs): publish it again")
    if _identity(handle) != identity:
        raise Refused(f"{told.text}: {names.DATA} changed while it was read: let nobody else write to this folder")
    return Verified(told, manifest, data, handle, identity)


def _manifest(folder: int, told: names.Told) -> manifests.Manifest:
    data = _read(folder, names.MANIFEST, manifests.MOST)
    if manifests.digest(data) != told.digest:
        raise Refused(f"{told.text}: {names.MANIFEST} is not the one that the trainer wrote: publish it again")
    manifest = manifests.parse(data)
    if (manifest.run, manifest.version) != (told.run, told.version):
        raise Refused(f"{told.text}: its manifest is that of {manifest.run}/{manifest.version}: publish it again")
    return manifest


def _hash(data: mmap.mmap, name: str) -> str:
    digest = hashes.new(name, _THREADS if len(data) >= _LARGE else 1)
    with memoryview(data) as view:
        for at in range(0, len(view), _PIECE):
            digest.update(view[at : at + _PIECE])
    return str(digest.hexdigest())


def _identity(handle: int) -> _Identity:
    found = os.fstat(handle)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextmanager
def _folder(root: Path, told: names.Told) -> Iterator[int]:
    """Open a version's folder step by step; `root` itself is the administrator's and may be a link."""
    with (
        _opened(_top(root)) as top,
        _opened(_step(top, told.run)) as run,
        _opened(_step(run, names.folder_of(told.version))) as folder,
    ):
        yield folder


def _top(root: Path) -> int:
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as fault:
        raise Missing(f"{root}: is not a folder here ({fault.strerror}): mount the shared volume there") from fault


def _step(folder: int, name: str) -> int:
    return _open(folder, name, os.O_DIRECTORY)


def _file(folder: int, name: str) -> int:
    """Open a file that is none of these: a link, a pipe that never answers, a device."""
    handle = _open(folder, name, os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Refused(f"{name}: is not a plain file: remove it")
    return handle


def _open(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=folder)
    except FileNotFoundError as fault:
        raise Missing(f"{name}: is not there: mount the same volume into trainer and sampler") from fault
    except OSError as fault:
        if fault.errno in _NO_LINKS:
            raise Refused(f"{name}: is a link or no folder, and links are not followed: remove it") from fault
        raise Refused(f"{name}: cannot be opened ({fault.strerror}): let the sampler's user read it") from fault


def _read(folder: int, name: str, most: int) -> bytes:
    with _opened(_file(folder, name)) as handle:
        if os.fstat(handle).st_size > most:
            raise Refused(f"{name}: has over {most} bytes: publish the version again")
        pieces, left = [], most
        while left and (piece := os.read(handle, min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)


@contextmanager
def _opened(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)
