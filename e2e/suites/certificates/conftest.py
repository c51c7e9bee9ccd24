"""Muster with certificates that its replicas share, whose lives are minutes; afterwards all is as it was."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster import places, processes
from e2e.cluster.places import REPOSITORY
from e2e.suites.certificates.shared import NAMESPACE, SECRET, Shared
from e2e.suites.support import documents
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

_RBAC = REPOSITORY / "manifests" / "overlays" / "production" / "rbac-certificates.yaml"
# As short as the configuration lets them be: an authority gets a successor after 38 seconds, a leaf after 13.
_SECRET = {"name": SECRET, "settle": 3, "interval": 1, "authorityValidity": 60, "leafValidity": 20}
_LEASE = {"name": "muster-certificates", "duration": 6, "deadline": 4, "retry": 1}


@pytest.fixture(scope="session")
def shared(kubectl: Kubectl, installation: Installation) -> Iterator[Shared]:
    """The installation, with two replicas where it is a Deployment."""
    rules = list(yaml.safe_load_all(_RBAC.read_text()))
    made = Shared(kubectl)
    bundles = made.bundles()
    kubectl.apply(*rules).expect()
    secret = {**_SECRET, "lease": _LEASE}
    tls = {"certFile": None, "keyFile": None, "caFile": None, "names": ["127.0.0.1"], "secret": secret}
    try:
        with installation.configure({"tls": tls}):
            made.scale(2)
            yield made
            made.scale(1)
            # The certificate of before is served again when the block ends, and must be trusted then.
            made.trust(bundles)
    finally:
        made.trust(bundles)
        kubectl.delete("secret", SECRET, NAMESPACE)
        kubectl.delete("lease", _LEASE["name"], NAMESPACE)
        for each in rules:
            kubectl.delete(each["kind"].lower(), each["metadata"]["name"], each["metadata"].get("namespace"))


@pytest.fixture
def job(space: Space) -> dict[str, object]:
    """A TrainJob that is admitted in the test's namespace."""
    space.apply(documents.training_runtime("rt", nodes=2, command=["torchrun", "train.py"])).expect()
    return documents.trainjob("probe", "rt")


@pytest.fixture
def several(shared: Shared) -> int:
    """How many replicas there are; skips where there can be only one."""
    if os.environ.get("MUSTER_E2E_TIER") == "control-plane":
        pytest.skip("Muster is one process here; the node tier has replicas")
    return shared.replicas


@pytest.fixture
def frozen_store() -> Callable[[float], None]:
    """Stop etcd for some seconds, as a disk does that is too slow; skips in a cluster that is not ours."""
    state = os.environ.get("MUSTER_E2E_STATE")
    pids = list(processes.running(places.Places(Path(state).resolve()), "etcd")) if state else []
    if not pids:
        pytest.skip("only the etcd of a cluster of ours is stopped")

    def freeze(seconds: float) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    return freeze
