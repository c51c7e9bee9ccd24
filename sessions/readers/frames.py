"""What a Gateway and a process that reads bodies write to each other: a head of fixed length, a name, bytes."""

from __future__ import annotations

import struct
from typing import IO, Final

__all__ = ["FAILED", "REFUSED", "TOLD", "receive", "send"]

TOLD: Final = b"told"
REFUSED: Final = b"refused"
FAILED: Final = b"failed"
_HEAD = struct.Struct(">HQ")


def send(sink: IO[bytes], name: bytes, data: bytes) -> None:
    """Write one frame. Raises `OSError` where nobody reads."""
    sink.write(_HEAD.pack(len(name), len(data)) + name)
    sink.write(data)
    sink.flush()


def receive(source: IO[bytes]) -> tuple[bytes, bytes] | None:
    """Return the name and the bytes of the next frame; None where there is none, or only a part of one."""
    head = source.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length, size = _HEAD.unpack(head)
    name, data = source.read(length), source.read(size)
    return (name, data) if len(name) + len(data) == length + size else None
