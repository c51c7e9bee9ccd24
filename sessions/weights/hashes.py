"""Hashes by name: BLAKE3, which takes a third of the processor time of SHA-256, where it is installed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from muster.sessions.refusals import Refused

try:
    from blake3 import blake3
except ImportError:
    blake3 = None

__all__ = ["BEST", "KNOWN", "Digest", "digest", "new"]

KNOWN = ("blake3", "sha256")
"""What a manifest may name; each has 256 bits, and nobody can make two files of one hash."""
BEST = "sha256" if blake3 is None else "blake3"
"""What a writer takes; the manifest says which it was."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What a hash gave: its name and hex digits."""

    name: str
    value: str


def new(name: str | None = None, threads: int = 1) -> Any:
    """Return a hash with `name`, `update` and `hexdigest`; the best one where none is named.

    Args:
        name: of the function.
        threads: for one update, where the function can be computed by several.

    Raises:
        Refused: for one that is not installed here.
    """
    if (name or BEST) == "sha256":
        return hashlib.sha256()
    if blake3 is None:
        raise Refused(f"weights: their manifest has {name} hashes: install {name} where they are read")
    return blake3(max_threads=threads)


def digest(data: bytes, name: str | None = None) -> Digest:
    """Return the hash of bytes. Raises `Refused` for one that is not installed here."""
    hashed = new(name)
    hashed.update(data)
    return Digest(hashed.name, hashed.hexdigest())
