"""A cluster without Muster, and helm; afterwards Muster is installed as before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.places import REPOSITORY
from e2e.suites.releases.helms import NAMESPACE, Helm
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.loads import probe
from e2e.suites.support.spaces import Space
from webhook import installer


@pytest.fixture(scope="session")
def helm(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    """helm, in a cluster from which Muster was taken; the tests install and uninstall it in their order."""
    deployment = kubectl.get("deployment", "muster", NAMESPACE)
    if deployment is None:
        pytest.skip("Muster is a process in this cluster; the node tier runs it in pods")
    binary = Path(kubectl.binary).with_name("helm")
    found = str(binary) if binary.exists() else shutil.which("helm")
    if found is None:
        pytest.skip("helm is neither beside kubectl nor on PATH")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    program = installer.Kubectl(kubectl.binary, Path(kubectl.kubeconfig))
    installer.uninstall(program, lambda _: None)
    home = tmp_path_factory.mktemp("helm")
    made = Helm(
        found, kubectl, REPOSITORY / "manifests" / "chart", image, {"PATH": os.environ["PATH"], "HOME": str(home)}
    )
    yield made
    made.uninstall()
    made.remove_namespace()
    installer.install(program, installer.Installation(image=image), lambda _: None)


@pytest.fixture
def job(space: Space) -> dict[str, object]:
    """A TrainJob that Muster completes, with its runtime."""
    return probe(space)
