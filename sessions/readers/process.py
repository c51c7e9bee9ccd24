"""A process that reads bodies, `python -m muster.sessions.readers.process`: frames on its standard input and output.

Its memory has a limit, so a body of which a parser makes gigabytes ends this process at most. It ends with its standard
input, and after a body that took much memory, which a heap seldom gives back.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import IO

import orjson
from pydantic import BaseModel

from muster.sessions.readers import frames
from muster.sessions.refusals import Refused
from muster.sessions.wire import forms

__all__ = ["MOST", "main", "served"]

MOST = 640 << 20
"""Bytes of memory that a body may take beside what the process has from its start."""
_LEFT = 256 << 20  # bytes that are resident after a large body, with which a process makes room for a new one
_LARGE = 1 << 20


def main() -> None:
    """Answer until nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the Gateway's terminal; it ends this process when it ends
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _limit()
    gc.disable()  # what a parser makes has no cycles, and a look at millions of lists takes longer than they took
    served(sys.stdin.buffer, sink)


def _limit() -> None:
    if has := _memory(0):
        resource.setrlimit(resource.RLIMIT_AS, (has + MOST, has + MOST))


def _memory(place: int) -> int:
    """Return bytes of this process: 0 for what it has asked for, 1 for what is resident; 0 where no kernel tells."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[place]) * resource.getpagesize() if pages.exists() else 0


def served(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer each frame, whose name is `MODULE:NAME` of what reads its bytes."""
    while (frame := frames.receive(source)) is not None:
        task, data = frame
        kind, answer = _answer(task.decode(), data)
        frames.send(sink, kind, answer)
        large = len(data) > _LARGE
        del frame, data, answer
        if large:
            gc.collect()
            if _memory(1) > _LEFT:
                return


def _answer(task: str, data: bytes) -> tuple[bytes, bytes]:
    try:
        return frames.TOLD, _read(task, data)
    except Refused as error:
        return frames.REFUSED, str(error).encode(errors="replace")
    except MemoryError:
        return frames.REFUSED, b"the body takes more memory than one may when it is read; send less in one request"
    except Exception as error:  # noqa: BLE001  # the Gateway logs it; of the body nothing is told
        told = "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
        return frames.FAILED, told.encode(errors="replace")


def _read(task: str, data: bytes) -> bytes:
    module, _, name = task.partition(":")
    reads = getattr(importlib.import_module(module), name)
    if isinstance(reads, type) and issubclass(reads, BaseModel):
        return forms.checked(reads, data).model_dump_json(exclude_unset=True).encode()
    return orjson.dumps(reads(data))


if __name__ == "__main__":
    main()
