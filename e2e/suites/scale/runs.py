"""The one big run that the tests of scale look at: jobs applied, awaited, and all that was seen meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from e2e.suites.support import kubectls, metrics, stalls
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Outcome
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space

__all__ = ["Memory", "Run", "run"]

_PATIENCE = 600.0  # seconds each for the apply and for the jobs, on a machine that has other work


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of Muster, in bytes: before, at its most, and after."""

    before: int
    peak: int
    after: int


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run.

    Attributes:
        space: the namespace.
        asked: how many jobs were applied.
        applied: what `kubectl apply` printed.
        trainjobs, jobsets: as they are stored at the end, by name.
        events: the events of the namespace.
        records: the records of Muster's audit log, of the namespace.
        memory: the memory of Muster.
        before, after: its metrics.
        apply_seconds: the duration of `kubectl apply`.
        seconds: the time until the last job had ended, or the wait was over.
        lost: seconds of them for which the machine stood still.
    """

    space: Space
    asked: int
    applied: Outcome
    trainjobs: Mapping[str, dict[str, Any]]
    jobsets: Mapping[str, dict[str, Any]]
    events: Sequence[Mapping[str, Any]]
    records: Sequence[Mapping[str, Any]]
    memory: Memory
    before: list[metrics.Sample]
    after: list[metrics.Sample]
    apply_seconds: float
    seconds: float
    lost: float

    def grown(self, metric: str, **labels: str) -> float:
        """Return how much a counter of Muster grew."""
        return metrics.total(self.after, metric, **labels) - metrics.total(self.before, metric, **labels)


def run(space: Space, installation: Installation, documents: Sequence[Mapping[str, Any]]) -> Run:
    """Apply TrainJobs in one go, and wait until all have ended, or patience has."""
    memory, before, started = installation.memory(), metrics.scraped(space.kubectl), time.monotonic()
    with _Meter(installation.memory, memory) as meter:
        text = kubectls.stream(tuple(documents))
        command = ("apply", "-n", space.name, "-f", "-")
        applied = space.kubectl.run(*command, stdin=text, timeout=_PATIENCE)
        if not applied.ok and stalls.lost(started):  # a person would send the file again
            applied = space.kubectl.run(*command, stdin=text, timeout=_PATIENCE)
        apply_seconds = time.monotonic() - started
        _wait(space, _PATIENCE)
        seconds = time.monotonic() - started
    return Run(
        space,
        len(documents),
        applied,
        _by_name(space.all(TRAINJOBS)),
        _by_name(space.all(JOBSETS)),
        space.events(),
        installation.audit(space.name),
        Memory(memory, meter.peak, installation.memory()),
        before,
        metrics.scraped(space.kubectl),
        apply_seconds,
        seconds,
        stalls.lost(started),
    )


class _Meter(threading.Thread):
    """Reads the memory each second, on a thread of its own; a context."""

    def __init__(self, read: Callable[[], int], first: int) -> None:
        super().__init__(name="meter", daemon=True)
        self._read = read
        self._over = threading.Event()
        self.peak = first

    def run(self) -> None:
        while not self._over.wait(1.0):
            self.peak = max(self.peak, self._read())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def _wait(space: Space, seconds: float) -> None:
    """Wait until all jobs are complete; which ones are not in time is for a test to say.

    kubectl watches, where a poll of five hundred objects would load the API server that is being measured.
    """
    limit = f"--timeout={seconds:.0f}s"
    space.kubectl.run(
        "wait", "-n", space.name, TRAINJOBS, "--all", "--for=condition=Complete", limit, timeout=seconds + 10
    )


def _by_name(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in found}
