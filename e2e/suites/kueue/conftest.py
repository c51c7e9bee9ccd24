"""One cluster with Kueue, and a second one to which the first hands jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import bringups, commands
from e2e.cluster.places import Places
from e2e.suites.kueue import kueues
from e2e.suites.support.kubectls import Kubectl

CHECK = "worker"


@pytest.fixture(scope="session")
def kueue(kubectl: Kubectl) -> Kubectl:
    """Kubectl of the cluster of the suites, in which Kueue runs; the cluster is taken down with it."""
    state = os.environ.get("MUSTER_E2E_STATE")
    if state is None or not Path(kubectl.binary).with_name("kueue").exists():
        pytest.skip("Kueue runs only beside a cluster that `python -m e2e.run --suite kueue` brings up")
    _start(Path(state).resolve(), kubectl.binary)
    return kubectl


@pytest.fixture(scope="session")
def worker(kueue: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Kubectl of another cluster with Trainer, JobSet, Muster and Kueue, which takes jobs of the first."""
    places = Places(tmp_path_factory.mktemp("worker") / "state")
    try:
        # Its components outlive what starts them, so they are no children of the tests.
        commands.run([sys.executable, "-m", "e2e.cluster", "up", "--tier=control-plane", f"--state={places.state}"])
        kubectl = Kubectl(str(places.kubeconfig), kueue.binary, {"KUBECACHEDIR": str(places.state / "kubectl-cache")})
        _start(places.state, kueue.binary)
        kueues.admission(kueue, CHECK, kubectl.run("config", "view", "--raw", "--flatten").expect().out)
        yield kubectl
    finally:
        bringups.down(places)


@pytest.fixture(scope="session")
def worker_audit(worker: Kubectl) -> Path:
    """The audit log of the worker cluster's Muster."""
    return Places(Path(worker.kubeconfig).parent).log("audit")


def _start(state: Path, kubectl: str) -> None:
    commands.run([sys.executable, "-m", "e2e.suites.kueue.kueues", state, kubectl, Path(kubectl).with_name("kueue")])
