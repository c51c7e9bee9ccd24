"""What processes have used so far, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["cpu", "memory", "memory_of", "seconds_of"]


def cpu(pids: Iterable[int]) -> float:
    """Return the processor seconds of some processes, all threads, ended ones too; resolved to one tick (10 ms)."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(seconds_of(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8"), ticks) for pid in pids)


def memory(pids: Iterable[int]) -> float:
    """Return the resident memory of some processes in MiB."""
    return sum(memory_of(Path(f"/proc/{pid}/status").read_text(encoding="utf-8")) for pid in pids)


def seconds_of(stat: str, ticks: int) -> float:
    """Return user and system seconds out of a `/proc/PID/stat`; the command's name may hold spaces and brackets."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / ticks


def memory_of(status: str) -> float:
    """Return the MiB of VmRSS out of a `/proc/PID/status`.

    Raises:
        ValueError: it has no such line, as that of a process which has ended.
    """
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError("/proc/PID/status has no VmRSS; the process has ended")
