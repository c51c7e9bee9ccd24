"""One process for each folder of sockets: two Gateways in one would end each other's engines."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

__all__ = ["locked"]


def locked(folder: Path) -> IO[bytes]:
    """Return what holds a folder until it is closed, or its process ends.

    Raises:
        ValueError: when another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        told = "end it, or take another --root; Gateways that share a --journal take another --replica each"
        raise ValueError(f"{folder}: another Gateway runs here; {told}") from error
    return file
