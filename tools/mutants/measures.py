"""Measurements: which tests of the unit tier run which line, and how long each of them takes.

One run of the tier under coverage.py, whose dynamic contexts are the node ids of the tests. A line that runs while
modules are imported or tests are collected belongs to the context "", and to no test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest

from tools.mutants import contexts

__all__ = ["SITE", "Measurement", "MeasurementError", "load", "measure"]

SITE = Path(__file__).parent / "site"
"""Goes on PYTHONPATH, so that programs that tests start are measured as well."""

_BUSY = 0.01  # of all tests; that many may fail because the machine is busy


class MeasurementError(Exception):
    """The tests fail without any fault, so a fault could not be told from none."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the tests ran.

    Attributes:
        lines: by file below the root and by line, the node ids of the tests that ran it.
        seconds: by node id, how long the test took.
        failed: tests that failed without any fault, as they may on a busy machine; they prove nothing and are in none
            of the others.
        deselected: tests that are not of the tier.
    """

    lines: Mapping[str, Mapping[int, frozenset[str]]]
    seconds: Mapping[str, float]
    failed: frozenset[str]
    deselected: frozenset[str] = frozenset()

    @property
    def known(self) -> frozenset[str]:
        """All tests that there were; others are new."""
        return self.failed | self.deselected | self.seconds.keys()


def measure(root: Path, folder: Path, sources: Sequence[str], chosen: Sequence[str], workers: int) -> None:
    """Run the tests once and leave the measurements in a folder, which is emptied first.

    Args:
        root: of the repository.
        folder: for the measurements.
        sources: packages whose lines are measured, below the root.
        chosen: arguments of pytest which say what the tests of the tier are.
        workers: processes at a time.

    Raises:
        MeasurementError: pytest itself failed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:randomly", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "-p", "tools.mutants.contexts", *chosen],
        cwd=root,
        env=_environment(root, folder, sources),
        check=False,
    )
    if ran.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise MeasurementError("The tests do not run.")


def _environment(root: Path, folder: Path, sources: Sequence[str]) -> dict[str, str]:
    return {
        **os.environ,
        contexts.FOLDER: str(folder.absolute()),
        contexts.SOURCES: os.pathsep.join(str(root / source) for source in sources),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(SITE), os.environ.get("PYTHONPATH")))),
    }


def load(root: Path, folder: Path) -> Measurement:
    """Read what `measure` left.

    Raises:
        MeasurementError: there is nothing to read.
    """
    parts = sorted(folder.glob("lines.*"))
    if not parts:
        raise MeasurementError(f"There are no measurements in {folder}. Run without --reuse.")
    notes = [json.loads(part.read_text()) for part in folder.glob("tests-*.json")]
    failed = frozenset(node for note in notes for node in note["failed"])
    seconds = {node: each for note in notes for node, each in note["seconds"].items() if node not in failed}
    if len(failed) > _BUSY * len(seconds):
        raise MeasurementError(f"{len(failed)} tests fail without any fault. Mend them first.")
    gathered: dict[str, dict[int, set[str]]] = {}
    for part in parts:
        _gather(part, root, gathered)
    lines = {
        file: {line: frozenset(nodes - failed) for line, nodes in by_line.items()} for file, by_line in gathered.items()
    }
    deselected = frozenset(node for note in notes for node in note["deselected"])
    return Measurement(lines, seconds, failed, deselected)


def _gather(part: Path, root: Path, gathered: dict[str, dict[int, set[str]]]) -> None:
    data = coverage.CoverageData(basename=str(part))
    data.read()
    for file in data.measured_files():
        by_line = gathered.setdefault(Path(file).relative_to(root).as_posix(), {})
        for line, nodes in data.contexts_by_lineno(file).items():
            by_line.setdefault(line, set()).update(node for node in nodes if node)
