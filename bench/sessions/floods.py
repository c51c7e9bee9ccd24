"""What a step takes while another tenant floods, against the same step while nobody does, in turns within one run.

The flood is a process of its own, which stands still for the other half of the turns: with the limits that every tenant
has by default, and with those that an operator gives to this one.
"""

from __future__ import annotations

import contextlib
import os
import signal
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
                ratios = _measure(service, str(base), flood)
        print(f"{name}: a step takes {figures.rounds(ratios)} times as long beside a flood")


@contextlib.contextmanager
def _flood(url: str, root: Path, base: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "sessions.cli", "keys", "create", "flood", "--root", str(root)]
    key = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603  # our own
    flooding = [sys.executable, "-m", "bench.sessions.flooder", url, key, str(base)]
    with subprocess.Popen(flooding, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  # as above
        try:
            if process.stdout is None or process.stdout.readline() != "floods\n":
                raise RuntimeError("the flood has not begun")
            yield process
        finally:
            process.kill()


def _measure(service: tinker.ServiceClient, base: str, flood: subprocess.Popen[str]) -> list[float]:
    """Return the ratios of the rounds, each of steps without the flood and of as many beside it."""
    client = service.create_lora_training_client(base, rank=16, seed=1).result()
    tokens = np.random.default_rng(0).integers(4, 100, (16, 33))
    inputs = [{"target_tokens": each[1:], "weights": np.ones(32, np.float32)} for each in tokens]
    data = [types.Datum(types.ModelInput.from_ints(t[:-1].tolist()), i) for t, i in zip(tokens, inputs, strict=True)]

    def steps() -> float:
        began = time.perf_counter()
        for _ in range(_STEPS):
            passed = client.forward_backward(data, "cross_entropy")
            client.optim_step(types.AdamParams(learning_rate=1e-4)).result()
            passed.result()
        return time.perf_counter() - began

    ratios = []
    for _ in range(_ROUNDS):
        flood.send_signal(signal.SIGSTOP)
        for _ in range(2):  # until what it sent is done
            steps()
        quiet = steps()
        flood.send_signal(signal.SIGCONT)
        steps()  # until it stands as high as it gets
        ratios.append(steps() / quiet)
    return ratios
