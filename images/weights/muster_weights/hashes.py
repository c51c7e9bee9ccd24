"""Hashes by name: BLAKE3, which is three times as fast as SHA-256, where the image has it."""

from __future__ import annotations

import hashlib
from typing import Any

from muster_weights.refusals import Refused

__all__ = ["BEST", "new"]

try:
    from blake3 import blake3
except ImportError:
    blake3 = None

BEST = "sha256" if blake3 is None else "blake3"
"""What a writer takes; the manifest says which it was."""


def new(name: str, threads: int = 1) -> Any:
    """Return a hash, with `update` and `hexdigest`.

    Args:
        name: of the function.
        threads: for one update, where the function can be computed by several.

    Raises:
        Refused: for a function that this image does not have.
    """
    if name == "sha256":
        return hashlib.sha256()
    if name == "blake3" and blake3 is not None:
        return blake3(max_threads=threads)
    raise Refused(f"manifest: hash: {name[:20]!r} is not known here: use the same image for trainer and sampler")
