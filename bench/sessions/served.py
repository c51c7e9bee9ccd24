"""A Gateway as a process, for benches."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.sessions.demo import tiny

__all__ = ["EMPTY", "Served", "engines", "made", "serve", "spent"]

EMPTY = ("--trainer", "bench.sessions.engines:Trainer", "--sampler", "bench.sessions.engines:Sampler")


@dataclass(frozen=True, slots=True)
class Served:
    """Where a Gateway listens, a key of it, and its process."""

    url: str
    key: str
    pid: int

    @property
    def resident(self) -> float:
        """Resident memory in MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def serve(
    root: Path, base: Path, *arguments: str, program: Sequence[str] = ("-m", "muster.sessions.cli")
) -> Iterator[Served]:
    """Serve a Gateway with its state in `root` on a base model; a program is what Python runs."""
    command = [sys.executable, "-m", "muster.sessions.cli"]
    key = subprocess.run(  # noqa: S603  # our own command
        [*command, "keys", "create", "bench", "--root", str(root)], check=True, capture_output=True, text=True
    ).stdout.strip()
    serving = [sys.executable, *program, "serve", "--root", str(root), "--base", str(base), "--port", "0", *arguments]
    with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  # as above
        try:
            line = process.stdout.readline() if process.stdout else ""
            yield Served(line.rsplit(" ", 1)[1].strip(), key, process.pid)
        finally:
            process.terminate()


def spent(pid: int) -> float:
    """Return the processor seconds of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def engines(pid: int) -> list[int]:
    """Return the processes that a Gateway has started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(each) for task in tasks for each in (task / "children").read_text(encoding="ascii").split()]


def made(folder: Path, *, empty: bool = False, hidden: int = 64) -> Path:
    """Make a base model; an empty one has a configuration only."""
    if not empty:
        return tiny.make(folder / "base", hidden=hidden)
    (folder / "base").mkdir()
    (folder / "base" / "config.json").write_text(json.dumps({"max_position_embeddings": 1024}), encoding="utf-8")
    return folder / "base"
