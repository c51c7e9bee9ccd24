"""The training of this process: its world size, compared once; its steps, counted; its report, at the end."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from typing import Any

from muster_guard import endings, sizes, start

__all__ = ["SCHEMA", "Training", "begin", "compare", "current"]

SCHEMA = "muster.dev/training/v1"


class Training:
    """What is known of the training in this process.

    Attributes:
        size: ranks that it has.
        rank: of this process.
        steps: of the optimizer that made the most.
    """

    def __init__(self, size: int, rank: int) -> None:
        self.size = size
        self.rank = rank
        self.steps: dict[int, int] = {}
        self._process = os.getpid()

    def stepped(self, optimizer: object) -> None:
        """Count a step."""
        number = id(optimizer)
        self.steps[number] = self.steps.get(number, 0) + 1

    def report(self) -> dict[str, Any]:
        """Return what is printed at the end."""
        asked = sizes.expected()
        return {
            "schema": SCHEMA,
            "worldSize": self.size,
            "expected": str(asked) if asked else None,
            "rank": self.rank,
            "steps": max(self.steps.values(), default=0),
            "wallSeconds": round(time.monotonic() - start.STARTED, 2),
        }

    def end(self) -> None:
        """Print the report; one rank of the pod leaves it as termination message, too, unless the program crashed.

        With nothing there, Kubernetes can take a crash's own last lines for the message
        (`terminationMessagePolicy: FallbackToLogsOnError`).
        """
        if os.getpid() != self._process:
            return  # a fork of it
        line = json.dumps(self.report(), separators=(",", ":"))
        endings.say(line)
        if os.environ.get("LOCAL_RANK", "0") == "0" and not hasattr(sys, "last_type"):
            endings.terminate(line)


current: Training | None = None
"""The training of this process, from its first step on."""

_compared: set[int] = set()


def begin(size: int, rank: int) -> None:
    """Compare the size of the training whose first step is about to be made, and report it at the end."""
    global current  # noqa: PLW0603  # there is one in a process, as there is one default process group
    compare(size)
    current = Training(size, rank)
    atexit.register(current.end)


def compare(size: int) -> None:
    """End the process if a training of this size is not what was asked for; say so only, where that is not sure."""
    asked = sizes.expected()
    if asked is None or size in _compared:
        return
    _compared.add(size)
    if asked.holds(size):
        endings.clear()
        return
    text = (
        f"muster: this training has {_ranks(size)}, but {asked} {'was' if asked.high == 1 else 'were'} asked for"
        f" ({asked.source}). {_what(size, asked)}"
    )
    if not asked.sure or start.MODE == "warn":
        endings.say(text)
        return
    endings.fail(f"{text} Launch it by torchrun, or let Muster do so; MUSTER_GUARD=warn lets it run as it is.")


def _ranks(size: int) -> str:
    return "1 rank" if size == 1 else f"{size} ranks"


def _what(size: int, asked: sizes.Expected) -> str:
    if size >= asked.low:
        return "More processes meet than there are places for."
    if not asked.sure:
        return "That is right only if this process uses the other devices as well."
    return "Each node would train by itself." if size == 1 else "Some of what was asked for would train without it."
