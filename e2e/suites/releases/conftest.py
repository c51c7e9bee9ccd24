"""A cluster without Muster, and helm; afterwards Muster is installed as before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.suites.support import helms
from e2e.suites.support.helms import Helm
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.loads import probe
from e2e.suites.support.spaces import Space


@pytest.fixture(scope="session")
def helm(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    """helm, in a cluster from which Muster was taken; the tests install and uninstall it in their order."""
    with helms.alone(kubectl, tmp_path_factory.mktemp("helm")) as made:
        yield made


@pytest.fixture
def job(space: Space) -> dict[str, object]:
    """A TrainJob that Muster completes, with its runtime."""
    return probe(space)
