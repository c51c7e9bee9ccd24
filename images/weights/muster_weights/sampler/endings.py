"""How a sampler ends: with the reason in its log and as the container's termination message."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

__all__ = ["leave", "note", "refuse"]

_LIMIT = 4096  # the kubelet reads no more of a termination message


def note(text: str) -> None:
    """Print a line, and append it to the termination message where the container has one and it fits."""
    line = f"muster: {text}\n"
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line)
        sys.stderr.flush()
    path = Path(os.environ.get("MUSTER_TERMINATION_LOG", "/dev/termination-log"))
    with contextlib.suppress(OSError):
        if path.is_file() and path.stat().st_size + len(line.encode()) <= _LIMIT:
            with path.open("a") as file:
                file.write(line)


def refuse(text: str) -> NoReturn:
    """End the start of a server."""
    note(text)
    raise SystemExit(f"muster: {text}")


def leave(text: str) -> NoReturn:
    """End a serving process at once, without what it would do at its exit."""
    note(text)
    os._exit(1)
