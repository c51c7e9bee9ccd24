#!/usr/bin/env python3
"""Stands in for a training: prints what a pod really gets, and whether its ranks can meet.

In the probe's image every launcher (torchrun, tune, trl) is this program. It prints JSON, one document per line:
`started` with argv and environment, `resolved` with the coordinator's address, `met` with the node ranks that came.
It ends with 0 when every expected rank came, or when no coordinator was named; else with 1. As the real ones do, `trl`
and `accelerate` look at their own flags alone for how many nodes there are, and start alone without them.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

__all__ = ["coordinator", "expected", "flag", "main", "rank"]

_PATIENCE = 120.0
_ALONE = ("trl", "accelerate")
_T = TypeVar("_T")


def main() -> int:
    """Print what the pod got, resolve the coordinator, and meet the other ranks."""
    _say("started", argv=sys.argv, env=dict(os.environ), host=socket.gethostname())
    named = coordinator(sys.argv[1:], os.environ)
    if named is None:
        return 0
    host, port = named
    address = _retried(lambda: socket.gethostbyname(host), f"resolve {host}")
    _say("resolved", host=host, port=port, address=address)
    launch = (Path(sys.argv[0]).name, sys.argv[1:], os.environ)
    ours, count = rank(*launch), expected(*launch)
    came = _gather(port, ours, count) if ours == 0 else _join(host, port, ours)
    _say("met", rank=ours, came=came)
    return 0 if came == list(range(count)) else 1


def coordinator(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Where the ranks meet, as a launcher would read it: flag, then torchrun's variables, then the plain ones."""
    if endpoint := flag(arguments, "rdzv-endpoint") or environment.get("PET_RDZV_ENDPOINT"):
        named, _, port = endpoint.rpartition(":")
        return named, int(port)
    if host := flag(arguments, "main-process-ip"):
        return host, int(flag(arguments, "main-process-port") or 29500)
    for prefix in ("PET_", ""):
        if host := environment.get(f"{prefix}MASTER_ADDR"):
            return host, int(environment.get(f"{prefix}MASTER_PORT", "29500"))
    return None


def expected(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """The number of nodes, as the launcher's arguments and environment say."""
    if program in _ALONE:
        return int(flag(arguments, "num-machines") or 1)
    return int(flag(arguments, "nnodes") or environment.get("PET_NNODES") or 1)


def rank(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """This node's rank."""
    if program in _ALONE:
        return int(flag(arguments, "machine-rank") or 0)
    return int(environment.get("PET_NODE_RANK") or environment.get("JOB_COMPLETION_INDEX") or 0)


def flag(arguments: Sequence[str], name: str) -> str | None:
    """The value of `--name VALUE` or `--name=VALUE`; dashes and underscores are the same, as for torchrun."""
    for position, argument in enumerate(arguments):
        key, separator, value = argument.partition("=")
        if key.startswith("--") and key[2:].replace("_", "-") == name:
            return value if separator else next(iter(arguments[position + 1 :]), None)
    return None


def _gather(port: int, ours: int, count: int) -> list[int]:
    """Wait for every other rank, then send each of them the list of ranks that came."""
    guests, came = [], [ours]
    with socket.create_server(("", port)) as server:
        server.settimeout(_PATIENCE)
        while len(came) < count:
            guest, _ = server.accept()
            guest.settimeout(_PATIENCE)
            came.append(int(guest.makefile().readline()))
            guests.append(guest)
        came.sort()
        for guest in guests:
            guest.sendall(f"{json.dumps(came)}\n".encode())
            guest.close()
    return came


def _join(host: str, port: int, ours: int) -> list[int]:
    """Send this rank to the coordinator and receive the list of ranks that came."""
    with _retried(lambda: socket.create_connection((host, port), timeout=_PATIENCE), f"reach {host}:{port}") as meeting:
        meeting.sendall(f"{ours}\n".encode())
        came: list[int] = json.loads(meeting.makefile().readline())
        return came


def _retried(attempt: Callable[[], _T], what: str) -> _T:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return attempt()
        except OSError as error:
            if time.monotonic() > deadline:
                _say("failed", what=what, error=str(error))
                raise
            time.sleep(0.3)


def _say(event: str, **facts: object) -> None:
    sys.stdout.write(json.dumps({"probe": event, **facts}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
