"""Watches: what a decision does besides deciding, by the audit events of Python (PEP 578)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["watch"]

_TOLD = (
    "open",
    "os.",
    "shutil.",
    "socket.",
    "subprocess.",
    "urllib.",
    "http.",
    "tempfile.",
    "sqlite3.",
    "ctypes.dlopen",
)
_watching: dict[int, list[str]] = {}
_installed: list[bool] = []


@contextmanager
def watch() -> Iterator[list[str]]:
    """Collect the events of input and output on this thread; a hook stays, because Python cannot remove one."""
    if not _installed:
        sys.addaudithook(_hear)
        _installed.append(True)
    thread = threading.get_ident()
    seen: list[str] = []
    _watching[thread] = seen
    try:
        yield seen
    finally:
        del _watching[thread]


def _hear(event: str, _: object) -> None:
    if _watching and event.startswith(_TOLD):
        seen = _watching.get(threading.get_ident())
        if seen is not None:
            seen.append(event)
