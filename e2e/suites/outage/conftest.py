"""Fixtures of the outages: whatever a test does to Muster, the next test finds it healthy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.suites.outage import impostor as program
from e2e.suites.outage.twins import Stalled, Twin
from e2e.suites.support import spaces
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "last: runs after all others, since it waits long for something they need not")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep all on one worker, should somebody run them in parallel, and put those last that wait longest."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("installation"))
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


@pytest.fixture(scope="session", autouse=True)
def _passes_the_time(request: pytest.FixtureRequest) -> None:
    """Start at the beginning what a test at the end checks."""
    if any("stalled" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("stalled")


@pytest.fixture(scope="session")
def stalled(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stalled]:
    """A second Muster whose watches have stalled since the first test."""
    space = Space(spaces.named("stalled"), kubectl).make()
    with Twin(kubectl, tmp_path_factory.mktemp("stalled")) as made:
        yield Stalled.begin(made, space)
    space.remove()


@pytest.fixture
def muster(installation: Installation) -> Iterator[Installation]:
    """Muster, for a test to take down; it is up and ready again afterwards, also when the test failed."""
    yield installation
    installation.start()


@pytest.fixture(scope="module")
def impostor(installation: Installation) -> Iterator[None]:
    """A program that answers in Muster's place, see `impostor.py`."""
    with installation.impostor(Path(program.__file__)):
        yield


@pytest.fixture
def twin(kubectl: Kubectl, tmp_path: Path) -> Iterator[Twin]:
    """A second Muster that follows the API server through a line which the test can cut, stall and slow down."""
    with Twin(kubectl, tmp_path) as made:
        yield made
