"""How a process ends: with a fixed exit code, a termination message for Kubernetes, and a mark for its launcher."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from muster_guard import start

__all__ = ["EXIT_CODE", "at_end", "before", "clear", "fail", "pass_on", "say", "terminate"]

EXIT_CODE = 78  # EX_CONFIG of sysexits.h; Python, torchrun and signals never end a process with it
before: list[Callable[[], object]] = []
"""What others call before a process fails, which skips what they registered with `atexit`."""
_LIMIT = 4096  # the kubelet reads no more of a termination message


def say(text: str) -> None:
    """Print a line to the log in one write, because several ranks print at once."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # there may be no stderr
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def terminate(text: str) -> None:
    """Append a line to the container's termination message, if it still fits.

    The file belongs to the kubelet; a missing one is not created.
    """
    path = Path(os.environ.get("MUSTER_TERMINATION_LOG", "/dev/termination-log"))
    line = f"{text}\n".encode()
    with contextlib.suppress(OSError):
        if path.is_file() and path.stat().st_size + len(line) <= _LIMIT:
            with path.open("ab") as file:
                file.write(line)


def fail(text: str, report: str = "") -> NoReturn:
    """End this process now with the fixed exit code, and let its launcher end with the same code.

    Process groups are not destroyed, because ranks that wait for one another would hang there.

    Args:
        text: why, for people; the last line of the termination message.
        report: a line for programs, above it.
    """
    say(text)
    for call in before:
        with contextlib.suppress(Exception):
            call()
    marked = _marks(write=True)
    if not any(path.exists() for path in marked):
        for line in filter(None, (report, text)):
            terminate(line)
    for path in marked:
        with contextlib.suppress(OSError):
            path.touch()
            break
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stdout.flush()
    os._exit(EXIT_CODE)


def at_end(call: Callable[[], object]) -> None:
    """Call something when this process ends, the last first; a child of `multiprocessing` ends without `atexit`."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        sys.modules["multiprocessing.util"].Finalize(None, call, exitpriority=0)
    else:
        atexit.register(call)


def clear() -> None:
    """Remove the marks of an earlier attempt, because this one has the right size."""
    for path in _marks():
        with contextlib.suppress(OSError):
            path.unlink()


def pass_on() -> None:
    """End the first process of the container with the fixed exit code, if one of its ranks had the wrong size.

    Launchers use codes of their own: torchrun and accelerate end with 1 for any failure of their processes.
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
    """Return the marks whose folders are there, and can be written."""
    found = map(Path, start.marks())
    return [path for path in found if path.parent.is_dir() and (not write or os.access(path.parent, os.W_OK))]


def _top() -> str:
    """Return the launcher's process id and start, which its ranks inherit by environment."""
    return os.environ.get("MUSTER_GUARD_TOP", "0-0")
