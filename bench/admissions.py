"""Jobs at a fixed rate through a real API server, for minutes: `python -m bench admissions` in KUBECONFIG's cluster.

An open load: each job is due at its time, whether or not earlier ones have been answered, so that a slow second delays
all jobs in it; the wait for a connection counts. Nothing is created (dry runs). A job takes two admissions, since it is
mutated and validated. `RATE` (jobs a second), `SECONDS` and `CONNECTIONS` (at most) are read from the environment; so
is `MUSTER_PIDS`, the ids of processes whose memory is reported. The suite `load` sends the same load while certificates
change and replicas are replaced.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import figures, pools

__all__ = ["WINDOW", "Result", "line", "measure", "run"]

WINDOW = 30.0
"""The length of a window in seconds."""
_RATE, _SECONDS = float(os.environ.get("RATE", "100")), float(os.environ.get("SECONDS", "600"))
_OPEN = 5000  # the most jobs that wait for an answer
_CONNECTIONS = int(os.environ.get("CONNECTIONS", "100"))  # half of --max-mutating-requests-inflight by default
_PATIENCE = 30.0
_PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs?dryRun=All"
_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "load", "namespace": "default"},
    "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "command": ["torchrun", "t.py"]}},
}


@dataclass(slots=True)
class Result:
    """The answers to a load.

    Attributes:
        answers: how often each answer came; "" is an admission.
        windows: seconds from due to answered, by the window in which a job was due.
    """

    answers: Counter[str] = field(default_factory=Counter)
    windows: dict[int, list[float]] = field(default_factory=dict)

    @property
    def seconds(self) -> list[float]:
        """The seconds of all windows."""
        return [each for window in self.windows.values() for each in window]


def run() -> None:
    """Print one line for each half minute, and the sum."""
    print(f"{_RATE:g} jobs a second through the API server for {_SECONDS:g} s")
    result = asyncio.run(measure(pools.current(), _RATE, _SECONDS, _show))
    print(f"  all    {line(result.seconds)}")
    for answer, count in result.answers.most_common(8):
        print(f"  {count:8} {answer or 'admitted'}")


async def measure(
    server: pools.Server, rate: float, seconds: float, ended: Callable[[int, Sequence[float]], None]
) -> Result:
    """Send jobs at a rate, and wait for all answers.

    Args:
        server: the API server.
        rate: jobs a second.
        seconds: the length of the load.
        ended: called with each finished window and the answers to it that have come.
    """
    pool, result = pools.Pool(server, _PATIENCE, _CONNECTIONS), Result()
    begun, tasks, shown = time.perf_counter(), set[asyncio.Task[None]](), 0
    for number in range(int(rate * seconds)):
        due = begun + number / rate
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        window = int((due - begun) / WINDOW)
        if len(tasks) >= _OPEN:
            result.answers[f"not sent: {_OPEN} jobs were not answered yet"] += 1
            continue
        task = asyncio.create_task(_ask(pool, result, number, due, window))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if window > shown:
            ended(shown, result.windows.get(shown, []))
            shown = window
    await asyncio.gather(*tasks)
    await pool.close()
    return result


async def _ask(pool: pools.Pool, result: Result, number: int, due: float, window: int) -> None:
    """Send one job, and count its time from when it was due."""
    job: dict[str, Any] = {**_JOB, "metadata": {**_JOB["metadata"], "name": f"load-{number}"}}
    try:
        answer = await pool.post(_PATH, json.dumps(job).encode())
        said = "" if answer.status == 201 else answer.body.decode(errors="replace")[:300]
    except (OSError, EOFError, TimeoutError) as error:
        said = f"no answer: {error or type(error).__name__}"
    result.answers[said] += 1
    result.windows.setdefault(window, []).append(time.perf_counter() - due)


def line(seconds: Sequence[float]) -> str:
    """Return one line about the times of some answers."""
    if not seconds:
        return "nothing answered"
    at = [figures.percentile(list(seconds), share) * 1000 for share in (0.5, 0.99, 1.0)]
    return f"{len(seconds):6} answers  p50 {at[0]:7.1f} ms  p99 {at[1]:7.1f} ms  max {at[2]:7.1f} ms"


def _show(window: int, seconds: Sequence[float]) -> None:
    memory = "".join(f" | {pid}: {_resident(pid):.0f} MiB" for pid in os.environ.get("MUSTER_PIDS", "").split())
    print(f"{window * WINDOW:5.0f} s  {line(seconds)}{memory}", flush=True)


def _resident(pid: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(each for each in status.splitlines() if each.startswith("VmRSS:")).split()[1]) / 1024
