"""Muster with shared certificates that live for minutes; afterwards the installation is as it was."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster import places, processes
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.loads import probe
from e2e.suites.support.shared import Shared, installed
from e2e.suites.support.spaces import Space

# As short as the configuration lets them be: an authority gets a successor after 38 seconds, a leaf after 13.
_LIVES = {"settle": 3, "interval": 1, "authorityValidity": 60, "leafValidity": 20}


@pytest.fixture(scope="module")  # not longer: the next suite finds Muster as it was
def shared(kubectl: Kubectl, installation: Installation) -> Iterator[Shared]:
    """The installation, with two replicas where it is a Deployment."""
    with installed(kubectl, installation, _LIVES) as made:
        yield made


@pytest.fixture
def job(space: Space) -> dict[str, object]:
    """A TrainJob that is admitted in the test's namespace."""
    return probe(space)


@pytest.fixture
def several(shared: Shared) -> int:
    """How many replicas there are; skips where there can be only one."""
    if os.environ.get("MUSTER_E2E_TIER") == "control-plane":
        pytest.skip("Muster is one process here; the node tier has replicas")
    return shared.replicas


@pytest.fixture
def frozen_store() -> Callable[[float], None]:
    """Stop etcd for some seconds, as a slow disk does; skip in a cluster that the tests did not make."""
    state = os.environ.get("MUSTER_E2E_STATE")
    pids = list(processes.running(places.Places(Path(state).resolve()), "etcd")) if state else []
    if not pids:
        pytest.skip("etcd is only stopped in a cluster that `e2e.cluster` made")

    def freeze(seconds: float) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    return freeze
