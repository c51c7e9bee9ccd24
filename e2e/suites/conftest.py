"""Fixtures of all suites, and a look at the cluster before anything runs."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.suites.support import kubectls, reports, spaces
from e2e.suites.support.installations import Installation, look
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

_HINT = (
    "Bring a cluster up with `make cluster` and set what the file `env` of its state folder says, or point KUBECONFIG"
    " at a cluster of your own that has JobSet, Trainer and Muster (docs/internals/testing.md)."
)


def pytest_sessionstart(session: pytest.Session) -> None:
    """End at once, with one error, when there is no cluster to test."""
    on_a_worker = hasattr(session.config, "workerinput")
    if not on_a_worker and not session.config.option.collectonly:
        problem = reports.missing(kubectls.found())
        if problem:
            pytest.exit(f"the suites cannot run: {problem}. {_HINT}", returncode=2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep tests that share something on one worker, see `schedulers`; called only when pytest-xdist runs."""
    from e2e.suites.support import schedulers  # noqa: PLC0415  # needs pytest-xdist

    return schedulers.ByExample(config, log)


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    """kubectl, as the cluster's administrator."""
    found = kubectls.found()
    assert found is not None, _HINT
    return found


@pytest.fixture(scope="session")
def installation(kubectl: Kubectl) -> Installation:
    """Muster, as it is installed in this cluster."""
    return look(kubectl)


@pytest.fixture
def space(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace for this test, which is deleted when the test has ended."""
    made = Space(spaces.named(request.node.name), kubectl).make()
    yield made
    made.remove()


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a figure into the run's output, whether the test passes or not."""

    def tell(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n  [{request.node.name}] {text}\n")

    return tell


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what was in a failed test's namespace, and what Muster did there."""
    report = yield
    if report.failed and call.when in ("setup", "call"):
        reports.explain(item, report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seconds of the tests of each suite, set-up included; those of some suites run four at a time."""
    seconds, tests = Counter[str](), Counter[str]()
    for report in itertools.chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            suite = Path(report.nodeid).relative_to("e2e/suites").parts[0]
            seconds[suite] += report.duration
            tests[suite] += report.when == "call"
    for suite, each in seconds.most_common():
        terminalreporter.write_line(f"muster: suite {suite}: {tests[suite]} tests, {each:.0f} s")
