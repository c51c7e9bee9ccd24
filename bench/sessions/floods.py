"""What a step takes while another tenant floods, against the same step while nobody does, in turns within one run.

The flood is a process of its own, which stands still for the other half of the turns: with the limits that every tenant
has by default, and with those that an operator gives to this one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tinker
from tinker import types

from bench import figures
from bench.sessions.served import made, serve

__all__ = ["run"]

_ROUNDS, _STEPS = 7, 4
_LIMITS = {
    "by default": "",
    "limited": "[tenants.flood]\nrequests_per_second = 5\nburst = 5\nwaiting_requests = 8\nmodels = 4\n",
}


def run() -> None:
    """Print how many times as long a step takes beside a flood."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name, limits in _LIMITS.items():
        with tempfile.TemporaryDirectory() as folder:
            root, base = Path(folder), made(Path(folder))
            (root / "limits.toml").write_text(limits, encoding="utf-8")
            with (
                serve(root / "state", base, "--limits", str(root / "limits.toml")) as gateway,
                tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as service,
                _flood(gateway.url, root / "state", base) as flood,
            ):
                ratios = _measure(service, str(base), flood, root / "state" / "journal.sqlite")
        for what, each in ratios.items():
            print(f"{name}: {what} takes {figures.rounds(each)} times as long beside a flood")


@contextlib.contextmanager
def _flood(url: str, root: Path, base: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "muster.sessions.cli", "keys", "create", "flood", "--root", str(root)]
    key = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603  # our own
    flooding = [sys.executable, "-m", "bench.sessions.flooder", url, key, str(base)]
    with subprocess.Popen(flooding, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  # as above
        try:
            if process.stdout is None or process.stdout.readline() != "floods\n":
                raise RuntimeError("the flood has not begun")
            yield process
        finally:
            process.kill()


def _drained(journal: Path) -> None:
    """Wait until nothing waits that was accepted."""
    with contextlib.closing(sqlite3.connect(journal)) as connection:
        while connection.execute("SELECT count(*) FROM requests WHERE state = 'waiting'").fetchone()[0]:
            time.sleep(0.05)


def _measure(
    service: tinker.ServiceClient, base: str, flood: subprocess.Popen[str], journal: Path
) -> dict[str, list[float]]:
    """Return the ratios of the rounds, each of steps without the flood and of as many beside it, by kind of step."""
    client = service.create_lora_training_client(base, rank=16, seed=1).result()
    tokens = np.random.default_rng(0).integers(4, 100, (16, 33))
    inputs = [{"target_tokens": each[1:], "weights": np.ones(32, np.float32)} for each in tokens]
    data = [types.Datum(types.ModelInput.from_ints(t[:-1].tolist()), i) for t, i in zip(tokens, inputs, strict=True)]

    def steps(count: int = _STEPS) -> float:
        began = time.perf_counter()
        for _ in range(count):
            passed = client.forward_backward(data, "cross_entropy")
            client.optim_step(types.AdamParams(learning_rate=1e-4)).result()
            passed.result()
        return time.perf_counter() - began

    def sampled() -> float:
        began = time.perf_counter()
        sampler = client.save_weights_and_get_sampling_client().result()
        sampler.sample(data[0].model_input, 8, types.SamplingParams(max_tokens=32, seed=1)).result()
        return time.perf_counter() - began + steps(1)

    ratios: dict[str, list[float]] = {"a step of training": [], "a step with sampling": []}
    for what, step in zip(ratios, (steps, sampled), strict=True):
        for _ in range(_ROUNDS):
            flood.send_signal(signal.SIGSTOP)
            _drained(journal)
            step()
            quiet = sum(step() for _ in range(3))
            flood.send_signal(signal.SIGCONT)
            step()  # until it stands as high as it gets
            ratios[what].append(sum(step() for _ in range(3)) / quiet)
    return ratios
