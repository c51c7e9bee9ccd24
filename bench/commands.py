"""What the command line costs: start-up, and documents per second of `muster check`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench import figures, reviews

__all__ = ["run"]

_ROUNDS, _DOCUMENTS = 5, 1_000


def run() -> None:
    """Print wall seconds of `--version`, and documents per second of a large `check`."""
    started = figures.rounds([_seconds("--version") for _ in range(_ROUNDS)])
    print(f"muster --version: {started} s wall, {_ROUNDS} runs")
    with tempfile.TemporaryDirectory() as folder:
        one, many = Path(folder, "one.yaml"), Path(folder, "many.yaml")
        job = yaml.safe_load(reviews.cluster_yaml().partition("---")[0])
        for path, count in ((one, 1), (many, _DOCUMENTS)):
            jobs = [job | {"metadata": {"name": f"llama-{number}"}} for number in range(count)]
            path.write_text(yaml.safe_dump_all(jobs), encoding="utf-8")
        base = [_seconds("check", "-f", str(one)) for _ in range(_ROUNDS)]
        full = [_seconds("check", "-f", str(many)) for _ in range(_ROUNDS)]
        rates = [_DOCUMENTS / (seconds - min(base)) for seconds in full]
    print(f"muster check, 1 document: {figures.rounds(base)} s; {_DOCUMENTS} documents: {figures.rounds(full)} s")
    print(f"documents per second beyond the first: {figures.rounds(rates)}")


def _seconds(*words: str) -> float:
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "muster", *words], capture_output=True, check=False)  # noqa: S603  # our own command
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode())
    return time.perf_counter() - started
