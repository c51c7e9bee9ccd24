"""Jobs at a fixed rate through a real API server, for minutes: `python -m bench admissions` in KUBECONFIG's cluster.

An open load: each job is due at its moment, whether or not those before have been answered, so that a slow second is
seen by all who come in it. Nothing is created (dry runs). `RATE` and `SECONDS` are read from the environment; so is
`MUSTER_PIDS`, process ids whose memory is reported. Beside it one may rotate certificates and restart replicas.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench import figures
from webhook.cluster import bodies, live, transports

_RATE, _SECONDS = float(os.environ.get("RATE", "200")), float(os.environ.get("SECONDS", "600"))
_WINDOW = 30.0
_OPEN = 5000  # jobs that wait for an answer at most
_PATIENCE = transports.Patience(5.0, 30.0)
_PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"
_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "load", "namespace": "default"},
    "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "command": ["torchrun", "t.py"]}},
}


class _Load:
    def __init__(self, sender: transports.Sender) -> None:
        self._sender = sender
        self.answers: Counter[str] = Counter()
        self.windows: dict[int, list[float]] = {}

    async def ask(self, number: int, due: float, begun: float) -> None:
        """Ask for one job, and count its time from when it was due."""
        job: dict[str, Any] = {**_JOB, "metadata": {**_JOB["metadata"], "name": f"load-{number}"}}
        try:
            async with self._sender.send("POST", _PATH, {"dryRun": "All"}, _PATIENCE, job) as response:
                await bodies.read(await bodies.checked(response), 1024 * 1024, "a job")
            self.answers["admitted"] += 1
        except transports.TransportError as error:
            self.answers[str(error)[:300]] += 1
        self.windows.setdefault(int((due - begun) / _WINDOW), []).append(time.perf_counter() - due)


def run() -> None:
    """Print one line for each half minute, and the sum."""
    asyncio.run(_run())


async def _run() -> None:
    sender = await live.connect(None)
    load, begun, tasks, shown = _Load(sender), time.perf_counter(), set(), 0
    print(f"{_RATE:g} jobs a second through the API server for {_SECONDS:g} s")
    for number in range(int(_RATE * _SECONDS)):
        due = begun + number / _RATE
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        if len(tasks) >= _OPEN:
            load.answers[f"not asked: {_OPEN} were not answered yet"] += 1
            continue
        task = asyncio.create_task(load.ask(number, due, begun))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if (window := int((due - begun) / _WINDOW)) > shown:
            _show(shown, load.windows.get(shown, []))
            shown = window
    await asyncio.gather(*tasks)
    everything = [each for window in load.windows.values() for each in window]
    print(f"  all    {_line(everything)}")
    for answer, count in load.answers.most_common(8):
        print(f"  {count:8} {answer}")
    await sender.close()


def _show(window: int, seconds: list[float]) -> None:
    memory = "".join(f" | {pid}: {_resident(pid):.0f} MiB" for pid in os.environ.get("MUSTER_PIDS", "").split())
    print(f"{window * _WINDOW:5.0f} s  {_line(seconds)}{memory}", flush=True)


def _line(seconds: list[float]) -> str:
    if not seconds:
        return "nothing answered"
    at = [figures.percentile(seconds, share) * 1000 for share in (0.5, 0.99, 1.0)]
    return f"{len(seconds):6} answers  p50 {at[0]:7.1f} ms  p99 {at[1]:7.1f} ms  max {at[2]:7.1f} ms"


def _resident(pid: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024
