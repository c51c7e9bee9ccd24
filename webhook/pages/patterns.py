"""Logs that come and go: those of all replicas on one volume, each in the folder of its pod.

A pattern is looked up again for each page, so that the log of a new pod is shown without a restart. A log keeps its
number while it exists, because links to records have it.
"""

from __future__ import annotations

import errno
import glob
import itertools
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from muster.webhook.pages.shelves import Shelf

__all__ = ["LOGS", "PatternShelf", "is_pattern"]

LOGS = 64
"""Maximum number of logs that are shown together; of more, those that were written last."""
_LOOKED_AT = 4_096


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


def _written(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
