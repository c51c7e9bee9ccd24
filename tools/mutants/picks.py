"""A pytest plugin of a trial: it runs the given tests in the given order, and stops one that does not end."""

from __future__ import annotations

import faulthandler
import json
from collections.abc import Container, Generator, Mapping, Sequence
from pathlib import Path

import pytest

__all__ = ["Picks"]

_STDERR = 2  # as it is outside of what pytest captures
_BETWEEN = 120.0  # seconds for what is not in a test: collection, and the end of fixtures of the session


class Picks:
    """Runs some tests and writes down how far it came, so that nothing is lost when the process is ended.

    Args:
        nodes: node ids, in order.
        known: all tests that there were when they were measured; one that is new runs after the others.
        limits: seconds by node id after which a test hangs, and the process ends.
        note: file for a JSON list: how many tests were begun, the one that runs or failed, whether the run has ended.
    """

    def __init__(self, nodes: Sequence[str], known: Container[str], limits: Mapping[str, float], note: Path) -> None:
        self._order = {node: index for index, node in enumerate(nodes)}
        self._known, self._limits, self._note = known, limits, note
        self._begun, self._failed = 0, ""
        self._watch(_BETWEEN)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests, in order; one whose name hangs on what is mutated may be missing, which proves nothing."""
        new = [item for item in items if item.nodeid not in self._known]
        kept = sorted((item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid])
        config.hook.pytest_deselected(items=[item for item in items if item not in kept and item not in new])
        items[:] = [*kept, *new]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let the test hang for as long as it may."""
        self._begun += 1
        self._write(item.nodeid)
        self._watch(self._limits.get(item.nodeid, _BETWEEN))
        try:
            return (yield)
        finally:
            self._watch(_BETWEEN)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember which test failed first."""
        if report.failed and not self._failed:
            self._failed = report.nodeid
            self._write(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write down the end; without it the process was ended."""
        self._write(self._failed, ended=True)

    def _watch(self, seconds: float) -> None:
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)

    def _write(self, node: str, *, ended: bool = False) -> None:
        self._note.write_text(json.dumps([self._begun, node, ended]))
