"""What engines and the agent of a device write to each other: one JSON object a line, with one word and its value.

| from | word | value |
|---|---|---|
| engine | `join` | `session`, `role`, `weight`, `host`: it has no memory on the device |
| engine | `ask` | true: it wants to compute |
| engine | `done` | the number of its grant: it keeps its memory, and computes nothing |
| engine | `moving` | true: what it allocates from now on is memory of the host |
| engine | `left` | the number of its grant: it has given up its memory |
| agent | `joined` | how it is called |
| agent | `grant` | a number: it may use the device |
| agent | `leave` | the number of its grant: give up the memory when what is computed is done |
| agent | `moved` | true |
| agent | `refused` | a sentence; the connection is closed |
| anyone | `status` | true, which the agent answers with what the device is at, and closes the connection |
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["LONGEST", "Join", "line", "word"]

LONGEST = 4096
"""Bytes of a line that is read."""
_HEAVIEST = 100.0
_LETTERS = frozenset(f"{string.ascii_letters}{string.digits}-_:.")


@dataclass(frozen=True, slots=True)
class Join:
    """How an engine introduces itself.

    Attributes:
        session: whose engines share turns.
        role: such as `trainer`.
        weight: of the session.
        host: bytes of host memory that it keeps while it is away.
    """

    session: str
    role: str
    weight: float = 1.0
    host: int = 0

    @classmethod
    def read(cls, value: object) -> Join:
        """Return what was told. Raises `ValueError` with the name of what is wrong."""
        if not isinstance(value, Mapping) or not value.keys() <= {"session", "role", "weight", "host"}:
            raise ValueError("join: is not an object of session, role, weight and host")
        session, role = _name(value, "session"), _name(value, "role")
        weight, host = value.get("weight", 1.0), value.get("host", 0)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 1 / _HEAVIEST <= weight <= _HEAVIEST:
            raise ValueError(f"join.weight: {str(weight)[:20]}: pass a number from {1 / _HEAVIEST} to {_HEAVIEST}")
        if isinstance(host, bool) or not isinstance(host, int) or host < 0:
            raise ValueError(f"join.host: {str(host)[:20]}: pass bytes, as a whole number that is not negative")
        return cls(session, role, float(weight), host)


def line(word: str, value: Any = True) -> bytes:  # most words say nothing more
    """Return a line."""
    return json.dumps({word: value}).encode() + b"\n"


def word(text: bytes) -> tuple[str, Any]:
    """Return the word of a line and its value. Raises `ValueError`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("a line is not JSON") from error
    if not isinstance(found, dict) or len(found) != 1:
        raise ValueError("a line is not a JSON object with one word")
    return next(iter(found.items()))


def _name(value: Mapping[str, object], key: str) -> str:
    name = value.get(key)
    if not isinstance(name, str) or not 1 <= len(name) <= 128 or set(name) - _LETTERS:
        raise ValueError(f"join.{key}: {str(name)[:40]!r}: pass 1 to 128 letters, digits, and -_:.")
    return name
