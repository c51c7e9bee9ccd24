"""What a process that reads bodies is given to do in tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from muster.sessions.refusals import Refused

_KEPT = []


def told(body):
    return body.decode()


def waits(body):
    """Return what is written into a pipe, whose path the body is."""
    return Path(body.decode()).read_text()


def refuses(body):
    raise Refused(f"{len(body)} bytes are too many")


def fails(body):
    raise ValueError(body)


def takes(body):
    """Take as many bytes of memory as the body says."""
    return len(bytes(int(body)))


def keeps(body):
    """Have memory that is not given back."""
    _KEPT.append(b"x" * (300 << 20))


def aborts(body):
    os.abort()


def is_killed(body):
    """Be killed the first time; the body is the path of a file that tells of it."""
    path = Path(body.decode())
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def pid(body):
    return os.getpid()
