"""Files that ranks of different nodes both save: `torch.save` and `safetensors.torch.save_file` are watched.

Two nodes may save files of one path on disks of their own, so the path proves nothing. What proves it is that two nodes
see a file of the same size, changed in the same nanosecond. So each rank writes into the store what it sees of the
files that it has saved: after a save, and at its end. Where the file system keeps only seconds, nothing is said.

An audit hook would see neither of the two ways: torch writes in C++, and safetensors in Rust.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import Any

from muster_guard import calls

__all__ = ["look", "saved", "watch"]

_MOST = 32  # files of a process that are looked at, the newest
_SECOND = 1_000_000_000

saved: Callable[[], None] = lambda: None  # noqa: E731  # replaced when a training begins
"""It is called when a file was saved."""
_paths: dict[str, None] = {}
_shared: set[str] = set()


def watch(module: Any, name: str, place: int, keyword: str) -> None:
    """Note the file that a function of a module saves each time that it returns.

    Args:
        module: it has the function.
        name: name of the function.
        place: where the path or the file is among the arguments.
        keyword: the name of this argument.
    """

    def note(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        target = args[place] if len(args) > place else kwargs[keyword]
        path = target if isinstance(target, os.PathLike) else getattr(target, "name", target)
        if isinstance(path, (str, bytes, os.PathLike)):
            path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  # a link may lead to another file later
            _paths.pop(path, None)
            _paths[path] = None
            if len(_paths) > _MOST:
                del _paths[next(iter(_paths))]
            saved()

    calls.after(module, name, note)


def look(store: Any, node: str) -> str | None:
    """Tell others what this node sees of its files; return one that another node has saved too, once each.

    Args:
        store: as torch's stores.
        node: name of this node.
    """
    for path in [each for each in list(_paths) if each not in _shared]:
        seen = _see(path)
        if seen is None:
            continue
        key = f"muster/file/{zlib.crc32(path.encode()):x}-{seen}"
        if store.compare_set(key, "", node).decode() not in ("", node):
            _shared.add(path)
            store.add("muster/files", 1)
            return path
    return None


def _see(path: str) -> str | None:
    """Return the size and the time of a file; it is opened, because NFS asks its server again then."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(number)
    finally:
        os.close(number)
    return f"{status.st_size:x}-{status.st_mtime_ns:x}" if status.st_mtime_ns % _SECOND else None
