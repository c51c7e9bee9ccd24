"""How many parts a protobuf message has, before it is parsed: an empty part has two bytes here and hundreds in memory.

Compressed, a few thousand bytes hold tens of millions of empty parts, which take the parser seconds and the memory of
the machine (protobuf 7.36.2, upb). What is counted is each field, and each byte of numbers that stand in one field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from muster.sessions.refusals import Refused

__all__ = ["MOST", "check", "end_of"]

MOST = 1 << 16
"""Parts of one message; the 1,024 datums that a client sends at most have some 25 each."""
_SMALL = 1 << 20  # bytes that are parsed in a moment, whatever they are
_VARINT = 10  # bytes
_FIXED = {1: 8, 5: 4}  # bytes of values by their wire type


def check(body: bytes, form: Any) -> None:
    """Check that a message has few parts; a small one is not looked at.

    Args:
        body: the message.
        form: its descriptor.

    Raises:
        Refused: when it has more than `MOST`, or is not a message.
    """
    if len(body) <= _SMALL:
        return
    count = 0
    try:
        for some in _parts(body, form):
            count += some
            if count > MOST:
                raise Refused(f"data: the request has more than {MOST} parts; send fewer datums at once")
    except (IndexError, DecodeError) as error:
        raise Refused("the body is not a message that a client of tinker 0.25.0 or later sends") from error


def _parts(body: bytes, form: Any) -> Iterator[int]:
    """Yield 1 for each field, more for one that holds many numbers, of the message and of those within it."""
    within = [(0, len(body), form)]
    while within:
        at, end, of = within.pop()
        while at < end:
            key, at = _varint(body, at)
            size, at = _size(body, at, key & 7)
            field = of.fields_by_number.get(key >> 3) if key & 7 == 2 else None
            if at + size > end:
                raise DecodeError
            if field is not None and field.message_type is not None:
                within.append((at, at + size, field.message_type))
            many = field is not None and field.is_repeated and field.message_type is None
            at += size
            yield size if many else 1


def end_of(body: bytes, count: int) -> int:
    """Return where the first fields of a message end, of at most some; 0 where they are none."""
    at = 0
    try:
        for _ in range(count):
            key, value = _varint(body, at)
            size, start = _size(body, value, key & 7)
            at = start + size
    except (IndexError, DecodeError):
        return 0
    return at if at <= len(body) else 0


def _size(body: bytes, at: int, kind: int) -> tuple[int, int]:
    """Return the bytes of a value, and where it begins. Raises `DecodeError` for groups, which no client sends."""
    if kind == 0:
        return 0, _varint(body, at)[1]
    if kind == 2:
        return _varint(body, at)
    if kind not in _FIXED:
        raise DecodeError
    return _FIXED[kind], at


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends. Raises `IndexError` and `DecodeError` where there is none."""
    value = body[at]
    if value < 128:
        return value, at + 1
    value &= 127
    for place in range(1, _VARINT):
        byte = body[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise DecodeError
