"""A pytest plugin that writes down which test ran which line, and how long each test took.

It is loaded in every worker of pytest-xdist before the product is imported. Programs that a test starts are measured
too: they find the test's name in their environment (`tools/mutants/site/sitecustomize.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from pathlib import Path

import coverage
import pytest

__all__ = ["FOLDER", "NODE", "SOURCES", "Contexts", "pytest_configure"]

FOLDER = "MUTANTS_FOLDER"
"""Environment: the folder in which the measurements are written."""
SOURCES = "MUTANTS_SOURCES"
"""Environment: the folders that are measured, separated by `os.pathsep`."""
NODE = "MUTANTS_NODE"
"""Environment: the test that is running, for the programs that it starts."""


class Contexts:
    """Measures one process of pytest.

    Attributes:
        seconds: what each test took with its fixtures.
        failed: tests that failed, though no fault is planted.
        deselected: tests that are not of the tier.
    """

    def __init__(self, folder: Path, sources: list[str]) -> None:
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.deselected: list[str] = []
        self._folder = folder
        self._coverage = coverage.Coverage(
            data_file=str(folder / "lines"), data_suffix=True, source=sources, config_file=False, messages=False
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Switch to the test, for as long as it runs."""
        os.environ[NODE] = item.nodeid
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")
            del os.environ[NODE]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the seconds of a test's fixtures, its call and its end, and note whether one of them failed."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note what is left out."""
        self.deselected += [item.nodeid for item in items]

    def pytest_unconfigure(self) -> None:
        """Write down what was measured."""
        self._coverage.stop()
        self._coverage.save()
        noted = {"seconds": self.seconds, "failed": self.failed, "deselected": self.deselected}
        (self._folder / f"tests-{os.getpid()}.json").write_text(json.dumps(noted))


def pytest_configure(config: pytest.Config) -> None:
    """Measure this process if it is the one that runs tests."""
    if os.environ.get(FOLDER) and (os.environ.get("PYTEST_XDIST_WORKER") or not config.getoption("numprocesses", None)):
        config.pluginmanager.register(Contexts(Path(os.environ[FOLDER]), os.environ[SOURCES].split(os.pathsep)))
