"""Chooses ports that nothing else uses, so that clusters run side by side."""

from __future__ import annotations

import random
import socket

from e2e.cluster.errors import ClusterError

__all__ = ["choose"]

# Below the kernel's range for outgoing connections (from 32768), which could otherwise take one before it is bound.
_RANGE = range(20000, 32000)
_TRIES = 500


def choose(count: int, address: str = "127.0.0.1") -> list[int]:
    """`count` different TCP ports, free on `address` at this moment.

    Raises:
        ClusterError: no free ones were found.
    """
    chosen: list[int] = []
    for candidate in random.sample(_RANGE, _TRIES):
        if _free(address, candidate):
            chosen.append(candidate)
        if len(chosen) == count:
            return chosen
    raise ClusterError(f"{address}: found no {count} free ports between {_RANGE.start} and {_RANGE.stop}")


def _free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
