"""Chooses ports that nothing else uses, so that clusters run side by side.

A component may listen long after its port was chosen, and another cluster chooses meanwhile. So each process that
chooses has blocks of its own, and keeps the first port of each bound as long as it lives.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import random
import socket
from collections.abc import Iterator

from e2e.cluster.errors import ClusterError

__all__ = ["choose"]

# Below the kernel's range for outgoing connections (from 32768), which could otherwise take one before it is bound.
_RANGE = range(20000, 32000)
_BLOCK = 50
_HELD = contextlib.ExitStack()
atexit.register(_HELD.close)
_left: dict[str, Iterator[int]] = {}
"""The ports that this process has not handed out yet, by address."""


def choose(count: int, address: str = "127.0.0.1") -> list[int]:
    """`count` different TCP ports, free on `address` now, that no other process chooses while this one lives.

    Raises:
        ClusterError: no free ones were found.
    """
    ports = _left.setdefault(address, _ports(address))
    chosen = list(itertools.islice(ports, count))
    if len(chosen) < count:
        raise ClusterError(f"{address}: found no {count} free ports between {_RANGE.start} and {_RANGE.stop}")
    return chosen


def _ports(address: str) -> Iterator[int]:
    blocks = range(_RANGE.start, _RANGE.stop, _BLOCK)
    for first in random.sample(blocks, len(blocks)):
        sign = _bound(address, first)
        if sign is not None:
            _HELD.enter_context(sign)
            yield from (port for port in range(first + 1, first + _BLOCK) if _is_free(address, port))


def _is_free(address: str, port: int) -> bool:
    probe = _bound(address, port)
    if probe is not None:
        probe.close()
    return probe is not None


def _bound(address: str, port: int) -> socket.socket | None:
    made = socket.socket()
    try:
        made.bind((address, port))
    except OSError:
        made.close()
        return None
    return made
