"""The training of this process: its world size is compared, its steps are counted, and its end is reported."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from muster_guard import calls, endings, sizes, start

__all__ = ["SCHEMA", "Training", "added", "begin", "begun", "compare", "current", "fail", "is_report", "place"]

SCHEMA = "muster.dev/training/v1"

added: dict[str, Callable[[], Any]] = {}
"""Members that others add to a report, by their names; what they return is JSON, and None leaves a member out."""


class Training:
    """The training in this process.

    Attributes:
        size: its number of ranks.
        rank: rank of this process.
        steps: number of steps of each optimizer, by its id.
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
        """Return the report that is printed at the end."""
        asked = sizes.expected()
        return {
            "schema": SCHEMA,
            "worldSize": self.size,
            "expected": str(asked) if asked else None,
            "rank": self.rank,
            "steps": max(self.steps.values(), default=0),
            "wallSeconds": round(time.monotonic() - start.STARTED, 2),
            **{name: value for name, of in added.items() if (value := calls.harmless(of)()) is not None},
        }

    def end(self) -> None:
        """Print the report; one rank of the pod also leaves it as termination message, unless the program crashed.

        After a crash the message stays empty, so that Kubernetes can use the last lines of the log instead
        (`terminationMessagePolicy: FallbackToLogsOnError`).
        """
        if os.getpid() != self._process:
            return  # a fork of the training process
        line = json.dumps(self.report(), separators=(",", ":"))
        endings.say(line)
        if os.environ.get("LOCAL_RANK", "0") == "0" and not hasattr(sys, "last_type"):
            endings.terminate(line)


begun: list[Callable[[], object]] = []
"""What others call when the training begins."""
current: Training | None = None
"""The training of this process, from its first step on."""

_compared: set[int] = set()


def begin(size: int, rank: int) -> None:
    """Compare the size of the training before its first step, and report it at the end."""
    global current  # noqa: PLW0603  # a process has one training, as it has one default process group
    compare(size)
    current = Training(size, rank)
    endings.at_end(calls.harmless(current.end))
    for call in begun:
        call()


def place() -> tuple[int, int]:
    """Return the current world size and rank of this process: 1 and 0 without a process group, of torch or of JAX."""
    module = sys.modules.get("torch.distributed")
    if module is not None and module.is_available() and module.is_initialized():
        return module.get_world_size(), module.get_rank()
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    return (state.num_processes or 1, state.process_id or 0) if state is not None else (1, 0)


def fail(text: str, verdict: str) -> NoReturn:
    """End this process as `endings.fail` does, with a report of what the training did until now.

    Args:
        text: why, for people.
        verdict: the same in a word, for programs.
    """
    training = current or Training(*place())
    endings.fail(text, json.dumps({**training.report(), "verdict": verdict}, separators=(",", ":")))


def compare(size: int) -> None:
    """End the process if the job asks for another size; only print a message where that is not sure."""
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
    if not asked.sure or is_report():
        endings.say(text)
        return
    endings.fail(f"{text} Launch it with torchrun, or let Muster do so; MUSTER_GUARD=report lets it run as it is.")


def is_report() -> bool:
    """Whether the guard says what is wrong and lets the training run."""
    return start.MODE in ("report", "warn")


def _ranks(size: int) -> str:
    return "1 rank" if size == 1 else f"{size} ranks"


def _what(size: int, asked: sizes.Expected) -> str:
    if size >= asked.low:
        return "More processes joined than the job has room for."
    if not asked.sure:
        return "That is right only if this process uses the other devices as well."
    return "Each node would train by itself." if size == 1 else "The other ranks would train without it."
