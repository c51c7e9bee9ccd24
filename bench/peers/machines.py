"""What was measured on, and when, in words for a page."""

from __future__ import annotations

import datetime
import os
import platform
import re
from pathlib import Path

__all__ = ["described", "numbers", "today", "without_folders"]

_FOLDERS = re.compile(r"(?:/[^/ `]+)+/")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_LONGEST = 300


def today() -> str:
    """Return the day in UTC."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"


def described() -> str:
    """Return processor, memory, kernel and the load of now."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    kernel = numbers(platform.release())
    return f"{cores} cores of {model} with {memory:.0f} GiB, Linux {kernel}, load {load:.1f} at the end"


def numbers(release: str) -> str:
    """Return the version numbers of a kernel, without what its builder wrote behind them."""
    found = _NUMBERS.match(release)
    return found[0] if found else release


def without_folders(text: str) -> str:
    """Return a message in one line, not too long, where files have no folders: those are the machine's."""
    return _FOLDERS.sub("", " ".join(text.split()))[:_LONGEST]
