"""Trials: a process for each mutant, in which tests run until one fails.

All mutants have their first helping of tests before any has its second, so that most verdicts come soon.

A process is forked from one that has imported the libraries, but nothing of the product: what a mutant changes is
imported by every trial anew. The order of the tests and the data of property tests are the same every time.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import hypothesis.configuration
import pytest

from tools.mutants import hooks, measures, picks
from tools.mutants.mutations import Mutant
from tools.mutants.reach import Selection

__all__ = ["Outcome", "Result", "Trial", "preload", "run"]

TRIAL = "MUTANTS_TRIAL"
"""Environment: the JSON file that tells programs which tests start what is mutated."""
_PATIENCE = 20.0  # seconds for a test that takes none
_SLOWER = 12.0  # times its measured seconds
_STEADY = 0.1  # seconds; a test that takes longer waits for something, and may have failed because the machine is busy
_MEMORY = 4 << 30  # bytes; a loop that collects without end fails before the machine does
_OPTIONS = (
    "-q",
    "-x",
    "--tb=line",
    "--no-header",
    "--hypothesis-seed=0",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
_WITHOUT = ("randomly", "xdist", "cacheprovider", "faulthandler")


class Outcome(Enum):
    """How a trial ended."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutant and the tests that may notice it."""

    mutant: Mutant
    selection: Selection


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant.

    Attributes:
        mutant: the fault.
        outcome: whether it was noticed.
        tests: how many tests ran.
        by: the test that failed or hung, "" where none did or the module could not be imported.
        seconds: of the trial.
        ran: the files of the tests, with the number of each.
    """

    mutant: Mutant
    outcome: Outcome
    tests: int
    by: str
    seconds: float
    ran: Mapping[str, int]


@dataclass(slots=True)
class _Running:
    index: int
    trial: Trial
    left: list[tuple[str, ...]]
    nodes: tuple[str, ...]
    began: float
    folder: Path
    tests: int = 0
    doubted: str = ""


class _Runner:
    """Keeps a number of trials running."""

    def __init__(self, root: Path, folder: Path, measured: measures.Measurement) -> None:
        self._root, self._folder, self._known, self._seconds = root, folder, measured.known, measured.seconds
        self._running: dict[int, _Running] = {}
        self._later: list[_Running] = []

    def __len__(self) -> int:
        return len(self._running)

    def go_on(self) -> bool:
        """Begin the second helping of a mutant that survived its first; return whether there was one."""
        if self._later:
            self._fork(self._later.pop(0))
            return True
        return False

    def begin(self, index: int, trial: Trial) -> None:
        """Begin the first helping of a mutant."""
        helpings = [each for each in (trial.selection.first, trial.selection.others) if each]
        nodes = helpings.pop(0) if helpings else ()
        folder = self._folder / str(index)
        self._fork(_Running(index, trial, helpings, nodes, time.monotonic(), folder))

    def _fork(self, running: _Running) -> None:
        (running.folder / "tmp").mkdir(parents=True, exist_ok=True)
        (running.folder / "note.json").unlink(missing_ok=True)
        limits = {node: _PATIENCE + _SLOWER * self._seconds.get(node, 1.0) for node in running.nodes}
        process = os.fork()
        if process == 0:
            _child(self._root, running, picks.Picks(running.nodes, self._known, limits, running.folder / "note.json"))
        self._running[process] = running

    def wait(self) -> Result | None:
        """Wait until a process ends; None where the trial goes on with other tests."""
        process, status = os.wait()
        running = self._running.pop(process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        outcome, tests, by = _judged(running.folder, status)
        running.tests += tests
        if self._is_doubtful(running, outcome, by):
            rest = tuple(node for node in running.nodes if node != by)
            self._fork(replace(running, nodes=(by,), left=[rest, *running.left], doubted=by))
            return None
        if outcome is Outcome.SURVIVED and running.left:
            self._later.append(replace(running, nodes=running.left[0], left=running.left[1:]))
            return None
        shutil.rmtree(running.folder / "tmp", ignore_errors=True)
        seconds = time.monotonic() - running.began
        return Result(running.trial.mutant, outcome, running.tests, by, seconds, _files(running.trial.selection))

    def _is_doubtful(self, running: _Running, outcome: Outcome, by: str) -> bool:
        """Tell whether a test failed that may be unsteady, and has to fail again."""
        unsteady = outcome is Outcome.TIMED_OUT or self._seconds.get(by, 0.0) > _STEADY
        return outcome is not Outcome.SURVIVED and by not in ("", running.doubted) and unsteady


def _judged(folder: Path, status: int) -> tuple[Outcome, int, str]:
    note = folder / "note.json"
    begun, test, ended = json.loads(note.read_text()) if note.exists() else (0, "", False)
    code = os.waitstatus_to_exitcode(status)
    if begun and not ended:
        return Outcome.TIMED_OUT, begun, test
    if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return Outcome.SURVIVED, begun, ""
    unimportable = "while loading conftest" in (folder / "log.txt").read_text(errors="replace")
    killed = code in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED) or unimportable
    return Outcome.KILLED if killed else Outcome.BROKEN, begun, test


def _files(selection: Selection) -> dict[str, int]:
    out: dict[str, int] = {}
    for node in (*selection.first, *selection.others):
        file = node.partition("::")[0]
        out[file] = out.get(file, 0) + 1
    return out


def _child(root: Path, running: _Running, plugin: picks.Picks) -> None:
    """Become the trial; never return."""
    code = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        _redirect(running.folder / "log.txt")
        _plant(root, running)
        code = int(pytest.main([*_arguments(running)], plugins=[plugin])) if running.nodes else 0
        sys.stdout.flush()
    finally:
        os._exit(code)


def _redirect(log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDONLY) if stream == 0 else file, stream)


def _plant(root: Path, running: _Running) -> None:
    mutant = running.trial.mutant
    source = mutant.planted((root / mutant.file).read_bytes())
    told = running.folder / "mutant.json"
    told.write_text(json.dumps({"root": str(root), "file": mutant.file, "source": source.decode()}))
    os.environ[TRIAL] = str(told)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(measures.SITE), os.environ.get("PYTHONPATH"))))
    hypothesis.configuration.set_hypothesis_home_dir(running.folder / "tmp" / "hypothesis")
    hooks.install(root, mutant.file, source)


def _arguments(running: _Running) -> Iterator[str]:
    yield from _OPTIONS
    for plugin in _WITHOUT:
        yield from ("-p", f"no:{plugin}")
    yield f"--basetemp={running.folder / 'tmp' / 'pytest'}"
    yield from dict.fromkeys(node.partition("::")[0] for node in running.nodes)


def preload(root: Path, files: Iterable[Path]) -> None:
    """Import the libraries that some files import, but nothing of the repository.

    Args:
        root: of the repository.
        files: of the product and the tests.
    """
    wanted = {name for file in files for name in _imported(file)}
    for name in sorted(wanted):
        if not (root / name.partition(".")[0]).exists():
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _imported(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def run(
    root: Path, folder: Path, trials: Sequence[Trial], measured: measures.Measurement, workers: int
) -> Iterator[Result]:
    """Run trials, some at a time, and yield what becomes of each as it ends.

    Args:
        root: of the repository.
        folder: for what the trials leave: logs, and where they keep their temporary files.
        trials: in the order in which they begin.
        measured: which tests there are, and what each of them takes.
        workers: processes at a time.
    """
    shutil.rmtree(folder, ignore_errors=True)
    runner, left = _Runner(root, folder, measured), list(enumerate(trials))
    while True:
        while left and len(runner) < workers:
            runner.begin(*left.pop(0))
        while len(runner) < workers and runner.go_on():
            pass
        if not len(runner):
            return
        if (result := runner.wait()) is not None:
            yield result
