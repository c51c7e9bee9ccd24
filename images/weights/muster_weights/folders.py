"""Versions of a run in a folder: each appears whole or not at all, and old ones go.

FOLDER/current.json              which version is served, for a server that starts again
FOLDER/RUN/v000000007/           manifest.json, weights.bin
FOLDER/RUN/.v000000008-1f3a/     one that is being written
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from muster_weights import hashes, manifests, names, writing
from muster_weights.refusals import Refused

__all__ = ["Named", "announce", "prune", "publish", "remove"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ALIGNED = 64  # bytes; tensors are read from memory in place

Named = tuple[str, str, tuple[int, ...], memoryview]
"""A tensor on its way to a file: name, type as in `manifests.ITEMS`, shape, and its bytes."""


def publish(root: Path, run: str, version: int, tensors: Iterable[Named]) -> names.Told:
    """Write a version, hashed on the way, one tensor in memory at a time.

    Args:
        root: the folder that trainer and sampler share.
        run: a name of `names.new_run`.
        version: one that this run has not written.
        tensors: with distinct names.

    Raises:
        Refused: when the storage is full, or a tensor cannot be told of in a manifest; nothing is left behind.
    """
    home = root / run
    partial = home / f".{names.folder_of(version)}-{secrets.token_hex(4)}"
    try:
        with _room(root):
            home.mkdir(parents=True, exist_ok=True)
            partial.mkdir()
            data = _written(partial, run, version, tensors)
            partial.rename(home / names.folder_of(version))
            _sync(home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return names.Told(run, version, manifests.digest(data))


def announce(root: Path, served: names.Told) -> None:
    """Write down which version is served, in one step; a server that starts again begins with it.

    Raises:
        Refused: when the storage is full; the note before it stays.
    """
    partial = root / f".{names.CURRENT}-{secrets.token_hex(4)}"
    try:
        with _room(root), partial.open("wb") as file:
            file.write(json.dumps(asdict(served)).encode())
            file.flush()
            os.fsync(file.fileno())
        partial.rename(root / names.CURRENT)
    finally:
        partial.unlink(missing_ok=True)
    _sync(root)


def prune(root: Path, run: str, keep: int) -> None:
    """Remove all versions of a run but the newest `keep`, and what was left half written."""
    home = root / names.valid(run)
    whole = sorted(home.glob("v[0-9]*"))
    for old in [*whole[: max(0, len(whole) - keep)], *home.glob(".v*")]:
        shutil.rmtree(old, ignore_errors=True)


def remove(root: Path, run: str) -> None:
    """Remove a run with all its versions, and the note that it is served."""
    note = root / names.CURRENT
    try:
        if json.loads(note.read_bytes()[:4096]).get("run") == run:
            note.unlink(missing_ok=True)
    except (OSError, ValueError, AttributeError):
        pass
    shutil.rmtree(root / names.valid(run), ignore_errors=True)


@contextmanager
def _room(root: Path) -> Iterator[None]:
    """Raise `Refused` where the storage is full."""
    try:
        yield
    except OSError as fault:
        if fault.errno in _FULL:
            raise Refused(f"weights: {root} is full: extend the volume or lower MUSTER_WEIGHTS_KEEP") from fault
        raise


def _written(folder: Path, run: str, version: int, tensors: Iterable[Named]) -> bytes:
    entries: list[manifests.Entry] = []
    with writing.written(folder / names.DATA) as stream:
        for name, dtype, shape, data in tensors:
            stream.put(memoryview(bytes(-stream.size % _ALIGNED)))
            entries.append(manifests.Entry(name, dtype, shape, stream.size))
            stream.put(data)
        value = stream.end()
        told = manifests.written(manifests.Manifest(run, version, stream.size, hashes.BEST, value, tuple(entries)))
        if len(told) > manifests.MOST:
            raise Refused(
                f"manifest: has {len(told)} bytes, over {manifests.MOST}: the model has too many tensors for this"
            )
        manifests.parse(told)
        with (folder / names.MANIFEST).open("wb") as file, _opened(folder) as handle:
            file.write(told)
            file.flush()
            writing.flush(stream.fileno(), file.fileno(), handle)
    return told


def _sync(folder: Path) -> None:
    with _opened(folder) as handle:
        os.fsync(handle)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)
