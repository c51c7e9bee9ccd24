"""How a process ends: with the fixed exit code, a message where Kubernetes looks for it, and a word to its launcher."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

__all__ = ["EXIT_CODE", "clear", "fail", "pass_on", "say", "terminate"]

EXIT_CODE = 78  # EX_CONFIG of sysexits.h: neither Python nor torchrun nor a signal ends a process with it
_LIMIT = 4096  # the kubelet reads no more of a termination message


def say(text: str) -> None:
    """Print a line to the log, in one write: several ranks print at a time."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def terminate(text: str) -> None:
    """Leave a line as the container's termination message, unless it would not fit beside what is there.

    The file is the kubelet's: where it is not, nothing is made.
    """
    path = Path(os.environ.get("MUSTER_TERMINATION_LOG", "/dev/termination-log"))
    line = f"{text}\n".encode()
    with contextlib.suppress(OSError):
        if path.is_file() and path.stat().st_size + len(line) <= _LIMIT:
            with path.open("ab") as file:
                file.write(line)


def fail(text: str) -> NoReturn:
    """End this process now with the fixed exit code, and have its launcher end with that, too.

    Nothing is torn down: ranks that wait for one another would wait here.
    """
    say(text)
    marked = _marks(write=True)
    if not any(path.exists() for path in marked):
        terminate(text)
    for path in marked:
        with contextlib.suppress(OSError):
            path.touch()
            break
    sys.stdout.flush()
    os._exit(EXIT_CODE)


def clear() -> None:
    """Take back the word of an attempt before: this one has the right size."""
    for path in _marks():
        with contextlib.suppress(OSError):
            path.unlink()


def pass_on() -> None:
    """End the first process of the container as a rank of it ended, if that failed for its size.

    Launchers give codes of their own: torchrun and accelerate end with 1 whatever their processes ended with.
    """
    if _top().partition("-")[0] != str(os.getpid()):
        return  # a fork that inherited the call
    found = [path for path in _marks() if path.exists()]
    if not found:
        return
    clear()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(EXIT_CODE)


def _marks(*, write: bool = False) -> list[Path]:
    """Where a mark of this launcher's ranks may be; the image may be read-only in all but one of these."""
    folders = (os.environ.get("TMPDIR"), "/tmp", "/dev/shm")  # noqa: S108  # the name is this launcher's own
    return [
        Path(folder) / f"muster-guard-{_top()}"
        for folder in folders
        if folder and Path(folder).is_dir() and (not write or os.access(folder, os.W_OK))
    ]


def _top() -> str:
    """Return the launcher's process id and start, which its ranks inherit by environment."""
    return os.environ.get("MUSTER_GUARD_TOP", "0-0")
