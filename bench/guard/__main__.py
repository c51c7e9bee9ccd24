"""What the guard costs a process that does not train, and a step of a small training; with and without it in turns.

Processor time counts, because it says the same on a busy machine; what is told is the median of the differences of
neighbours. `python -m bench.guard [starts|steps]` runs both by default.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import figures

_STARTS, _ROUNDS, _STEPS = 25, 15, 100
_MOUNTED = tempfile.TemporaryDirectory()
_GUARD = Path(_MOUNTED.name, "guard")  # without bytecode, which a read-only mount does not keep
_TRAINING = Path(__file__).parent / "training.py"


def _environment(*, guarded: bool) -> dict[str, str]:
    known = {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "MUSTER_GUARD": "report",
    }
    return {**known, **({"PYTHONPATH": str(_GUARD)} if guarded else {})}


def _started(*, guarded: bool) -> float:
    """Return the processor time of `python -c pass`, in milliseconds."""
    with subprocess.Popen([sys.executable, "-c", "pass"], env=_environment(guarded=guarded)) as process:
        _, code, used = os.wait4(process.pid, 0)
        process.returncode = code
    assert code == 0
    return (used.ru_utime + used.ru_stime) * 1e3


def starts() -> None:
    """Print the milliseconds of a start with and without the guard."""
    pairs = [(_started(guarded=False), _started(guarded=True)) for _ in range(_STARTS)]
    more = figures.rounds([mine - bare for bare, mine in pairs])
    bare = figures.rounds([bare for bare, _ in pairs])
    print(f"start of a process, ms of processor time: {bare} without the guard, {more} more with it; {_STARTS} pairs")


def steps() -> None:
    """Print the microseconds of a step with and without the guard."""
    python = os.environ.get("MUSTER_TRL_PYTHON") or sys.exit("MUSTER_TRL_PYTHON names a Python that has torch")
    runs = [
        subprocess.Popen(  # noqa: S603  # a program of our own
            [python, str(_TRAINING), str(_STEPS)], env=_environment(guarded=guarded), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for guarded in (False, True)
    ]  # fmt: skip
    pairs = [
        tuple(map(_turn, runs if number % 2 else runs[::-1]))[:: 1 if number % 2 else -1] for number in range(_ROUNDS)
    ]
    for each in runs:
        each.communicate()
    bare = figures.rounds([each for each, _ in pairs])
    more = figures.rounds([100 * (mine / each - 1) for each, mine in pairs])
    print(f"step, us of processor time: {bare} without the guard, {more} % more with it; {_ROUNDS} pairs of {_STEPS}")


def _turn(run: subprocess.Popen[str]) -> float:
    assert run.stdin
    assert run.stdout
    run.stdin.write("\n")
    run.stdin.flush()
    return float(run.stdout.readline())


shutil.copytree(Path(__file__).parents[2] / "images" / "guard", _GUARD, ignore=shutil.ignore_patterns("__pycache__"))
_ASKED: dict[str, Callable[[], None]] = {"starts": starts, "steps": steps}
for name in sys.argv[1:] or _ASKED:
    _ASKED[name]()
